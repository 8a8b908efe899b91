"""What every plugin says of itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import attrs
import pytest

from tfopt_core.hooks.card import card, math_of, traits
from tfopt_core.hooks.contract import check_class, check_hooks
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.installed.settings import field_types, mismatch

# The shipped ones, from where they are registered: a new one is tested without being named here.
PLUGINS = {
    name: found[0].entry_point.value
    for name, found in registrations("tfopt.plugins").items()
    if found[0].distribution == "tfopt"
}
NEEDED: dict[str, dict[str, Any]] = {
    "augment": {"layers": ({"layer": "RandomFlip"},)},
    "target-stop": {"metric": "val_loss", "at_most": 0.1},
}


def load(name: str) -> Any:
    module, _, attribute = PLUGINS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def test_the_shipped_plugins_are_found() -> None:
    assert len(PLUGINS) >= 23


@pytest.mark.parametrize("name", PLUGINS)
def test_card_has_every_heading_with_text(name: str) -> None:
    found = card(load(name))
    assert found.summary
    assert not found.missing
    assert all(text for _, text in found.sections)


@pytest.mark.parametrize("name", PLUGINS)
def test_every_setting_has_help_and_a_default_of_its_type(name: str) -> None:
    types = field_types(load(name))
    for attribute in attrs.fields(load(name)):
        assert attribute.metadata["help"].endswith("."), attribute.name
        if attribute.default is not attrs.NOTHING and attribute.default is not None:
            assert mismatch(attribute.default, types[attribute.name]) is None


@pytest.mark.parametrize("name", PLUGINS)
def test_plugin_fulfils_the_contract(name: str) -> None:
    plugin_class = load(name)
    check_class(name, plugin_class)
    plugin = plugin_class(**NEEDED.get(name, {}))
    check_hooks(name, plugin)
    assert traits(name, plugin_class).targets
    assert math_of(name, plugin)
    for other in (*traits(name, plugin_class).after, *traits(name, plugin_class).conflicts):
        assert other in PLUGINS


def test_importing_plugins_does_not_import_tensorflow() -> None:
    modules = ", ".join(sorted(entry.partition(":")[0] for entry in PLUGINS.values()))
    code = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )
