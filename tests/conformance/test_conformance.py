"""Every plugin that the tfopt distribution registers keeps the contract."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest

from tfopt_core.hooks.card import HEADINGS, MATHS, card, math_of, traits
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.testing import check_plugin

# For plugins some of whose settings have no default.
NEEDED: dict[str, dict[str, Any]] = {
    "augment": {"layers": ({"layer": "RandomFlip"},)},
    "target-stop": {"metric": "val_loss", "at_most": 0.1},
}
DISTRIBUTION = "tfopt"
OURS = {
    name: found[0]
    for name, found in registrations().items()
    if found[0].distribution == DISTRIBUTION
}


def made(name: str) -> Any:
    return OURS[name].load()(**NEEDED.get(name, {}))


def test_what_is_registered_is_what_pyproject_says():
    project = tomllib.loads(Path(__file__, "../../../pyproject.toml").resolve().read_text())
    said = project["project"]["entry-points"]
    registered = {name: found.entry_point.value for name, found in OURS.items()}
    assert registered == said["tfopt.plugins"]
    workloads = registrations("tfopt.workloads")
    assert {
        name: found[0].entry_point.value
        for name, found in workloads.items()
        if found[0].distribution == DISTRIBUTION
    } == said["tfopt.workloads"]


def test_no_name_is_registered_twice():
    assert [name for name, found in registrations().items() if len(found) > 1] == []


@pytest.mark.parametrize("name", OURS)
def test_it_passes_the_check_that_third_parties_use(name):
    check_plugin(name, OURS[name].load(), **NEEDED.get(name, {}))


@pytest.mark.parametrize("name", OURS)
def test_its_card_is_complete(name):
    said = card(OURS[name].load())
    assert said.summary.endswith(".")
    assert len(said.summary) <= 100
    assert said.missing == ()
    assert [heading for heading, text in said.sections if text] == list(HEADINGS)


@pytest.mark.parametrize("name", OURS)
def test_its_math_is_one_of_the_four_and_its_relations_name_plugins_that_exist(name):
    assert math_of(name, made(name)) in MATHS
    said = traits(name, OURS[name].load())
    for other in (*said.requires, *said.conflicts, *said.before, *said.after):
        assert other in OURS


@pytest.mark.parametrize("name", OURS)
def test_its_settings_survive_pickling_and_json(name):
    plugin = made(name)
    settings = StackedPlugin(name, plugin).settings
    copied = StackedPlugin(name, pickle.loads(pickle.dumps(plugin))).settings
    assert copied == settings
    through_json = json.loads(json.dumps(plain(settings)))
    rebuilt = type(plugin)(
        **{
            key: tuple(value) if isinstance(value, list) else value
            for key, value in through_json.items()
        }
    )
    assert StackedPlugin(name, rebuilt).settings == settings


@pytest.mark.parametrize("name", OURS)
def test_it_is_frozen_and_compares_by_identity(name):
    plugin = made(name)
    assert plugin != made(name)
    for attribute in attrs.fields(type(plugin)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(plugin, attribute.name, None)


def test_all_are_imported_and_made_without_tensorflow():
    code = """
        import sys
        from tfopt_core.hooks.installed.discovery import registrations
        for name, found in registrations().items():
            if found[0].distribution == "tfopt":
                found[0].load()
        print([m for m in ("tensorflow", "keras", "numpy") if m in sys.modules])
    """
    import textwrap

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
