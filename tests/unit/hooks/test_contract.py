"""Which hooks a plugin class has is read from the class, by every pluggy that pyproject allows."""

from __future__ import annotations

from typing import Any

import attrs
import pluggy
import pytest

from tfopt_core.hooks.contract import check_class, implementations
from tfopt_core.plugins import Plugin, RuntimeOptions, hookimpl
from tfopt_core.testing import make_machine, stack_of


class Raises:
    """A descriptor that cannot be read, from an instance or from the class."""

    def __get__(self, instance: object, owner: type) -> Any:
        raise RuntimeError("was read")


@attrs.frozen(kw_only=True, eq=False)
class Unreadable(Plugin):
    """Has a setting without a default, and attributes that raise."""

    size: int
    unset: int = attrs.field(init=False)
    descriptor = Raises()

    @property
    def seconds(self) -> float:
        raise RuntimeError("was read")

    @hookimpl
    def configure_runtime(self, options: RuntimeOptions) -> Any:
        return attrs.evolve(options, intra_op_threads=self.size)


@pytest.fixture(params=["installed", "1.5"])
def pluggy_version(request, monkeypatch):
    """Look for hooks as the installed pluggy does, and as pluggy 1.5 and 1.6 do."""

    def parse(self, plugin, name):
        return getattr(getattr(plugin, name), "tfopt_impl", None)

    if request.param == "1.5":
        monkeypatch.setattr(pluggy.PluginManager, "parse_hookimpl_opts", parse)


@pytest.mark.usefixtures("pluggy_version")
def test_the_hooks_of_a_class_are_found_without_an_object():
    assert list(implementations(Unreadable)) == ["configure_runtime"]


@pytest.mark.usefixtures("pluggy_version")
def test_no_attribute_of_a_plugin_is_read_to_find_its_hooks():
    plugin = Unreadable(size=3)
    assert list(implementations(type(plugin))) == ["configure_runtime"]
    check_class("unreadable", type(plugin))
    options = stack_of(plugin, configure_runtime=RuntimeOptions()).configure_runtime(
        make_machine(), None
    )
    assert options.intra_op_threads == 3
