"""What is described of a plugin: its settings with their bounds and ranges, within a time limit."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
from attrs import field, validators
from support.real_process import make_distribution

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.hooks.installed import inspection
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import declared_range, describe_plugin
from tfopt_core.plugins import Plugin, hookimpl, setting
from tfopt_core.recipe.values import field_types

SLOW = '''
    import time
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl
    time.sleep({seconds})

    @attrs.frozen(kw_only=True, eq=False)
    class Slow(Plugin):
        """Is slow to import."""

        @hookimpl
        def on_epoch_end(self):
            pass
'''


@pytest.mark.thorough
def test_only_the_plugin_that_hangs_gets_the_time_limit_as_its_error(tmp_path, monkeypatch):
    names = ("first-slow", "second-slow", "third-hangs", "zero")  # in the order of the imports
    modules = dict(zip(names, ("one", "two", "three", "four"), strict=True))
    seconds = dict(zip(names, (2.6, 2.6, 600, 0), strict=True))
    make_distribution(
        tmp_path,
        "slow-dist",
        {name: f"{modules[name]}:Slow" for name in names},
        **{modules[name]: SLOW.format(seconds=seconds[name]) for name in names},
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(inspection, "TIME_LIMIT_SECONDS", 5.0)
    errors = {info.name: info.error for info in inspection.inspect_plugins(names)}
    assert errors == {
        "first-slow": None,
        "second-slow": None,
        "third-hangs": "took longer than 5 s while it was imported",
        "zero": None,
    }


def test_what_a_setting_takes_is_said_with_its_bounds():
    @attrs.frozen(kw_only=True, eq=False)
    class Bounded(Plugin):
        """Takes numbers."""

        size: int | Literal["auto"] = setting(default=1, validator=validators.ge(1), help="A size.")
        share: float = setting(
            default=0.5, validator=[validators.gt(0), validators.le(1)], help="A share."
        )

        @hookimpl
        def on_epoch_end(self) -> None: ...

    described = inspection.describe_plugin("bounded", Bounded)
    assert [one.type for one in described.settings] == [
        'a whole number of at least 1 or "auto"',
        "a number above 0 and at most 1",
    ]


def class_with(search, kind):
    """A class with a setting of this type, above 0, that declares this range."""
    metadata = {"help": "A rate.", "search": search}
    rate = field(default=kind(1), type=kind, validator=validators.gt(0), metadata=metadata)
    return attrs.make_class(
        "Declares", {"rate": rate}, (Plugin,), kw_only=True, frozen=True, eq=False
    )


def range_of(plugin_class):
    types = field_types(plugin_class)
    return declared_range("declares", attrs.fields(plugin_class).rate, types["rate"])


def test_the_description_of_a_plugin_has_its_ranges():
    between = {"low": 0.1, "high": 1.0}
    for search in (between, None):
        info = describe_plugin("declares", class_with(search, float))
        assert [one.search for one in info.settings] == [search]


@pytest.mark.parametrize("name", ["l2", "dropconnect", "gradient-accumulation", "lr-schedule"])
def test_the_shipped_ranges_are_of_their_settings(name):
    plugin_class = find(name, registrations()).load()
    settings = describe_plugin(name, plugin_class).settings
    assert [one.name for one in settings if one.search is not None]


@pytest.mark.parametrize(
    ("search", "kind", "message"),
    [
        ({"low": 2, "high": 1}, float, "not below high"),
        ({"low": 2, "hi": 1}, float, 'wrong: hi: unknown key; did you mean "high"?; "high" is'),
        (0.5, float, "or choices such as [32, 64, 128]"),
        ([1.0], float, "nothing to search"),
        ({"low": 0.0, "high": 1.0}, float, "holds what it refuses"),
        (["a", "b"], float, "expected a number"),
        ({"low": 0.5, "high": 4.0}, int, "expected a whole number"),
    ],
)
def test_a_range_that_the_setting_refuses_is_an_error_of_the_plugin(search, kind, message):
    with pytest.raises(PluginDefinitionError) as caught:
        range_of(class_with(search, kind))
    assert message in str(caught.value)
    assert '"rate"' in str(caught.value)


def test_choices_may_be_a_tuple():
    assert range_of(class_with((1, 2), int)) == [1, 2]
