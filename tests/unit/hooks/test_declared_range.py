"""The range that a plugin declares for a setting: read, and checked by its own setting."""

from __future__ import annotations

import attrs
import pytest
from attrs import field, validators

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import declared_range, describe_plugin
from tfopt_core.plugins import Plugin
from tfopt_core.recipe.values import field_types


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
