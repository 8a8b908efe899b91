"""A plugin's fields are its settings: what is said about wrong ones, and how they are described."""

from typing import Annotated, Literal

import attrs
import pytest
from attrs import field, validators
from hypothesis import given
from hypothesis import strategies as st
from support.real_process import make_distribution

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.hooks.installed import inspection
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import declared_range, describe_plugin
from tfopt_core.plugins import Plugin, hookimpl, setting
from tfopt_core.recipe.table import configure
from tfopt_core.recipe.tree import Node, Place
from tfopt_core.recipe.values import faults_of, field_types

PLACE = Place("r.toml", 10, "plugins[0]")


@attrs.frozen(kw_only=True, eq=False)
class Example:
    size: int = field(default=8, validator=validators.ge(1))
    share: float = 0.5
    mode: Literal["fast", "slow"] = "fast"
    calls: int | Literal["auto"] = "auto"
    names: tuple[str, ...] = ()
    on: bool = False


def problems(**settings):
    keys = {
        key: Node(value, Place("r.toml", number, f"plugins[0].{key}"))
        for number, (key, value) in enumerate(settings.items(), start=11)
    }
    _, faults = configure(Example, settings)
    return [str(problem) for problem in Node(keys, PLACE).problems(faults)]


def test_every_problem_is_reported_at_once_with_its_line():
    assert problems(sise=3, share="half", size=0) == [
        'r.toml:11: plugins[0].sise: unknown setting; did you mean "size"?',
        'r.toml:12: plugins[0].share: expected a number, got "half" (a string)',
        "r.toml:13: plugins[0].size: expected a whole number of at least 1, got 0 (a whole number)",
    ]


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("size", True, "expected a whole number, got true (a boolean)"),
        ("size", 2.5, "expected a whole number, got 2.5 (a number)"),
        ("share", float("nan"), "expected a finite number, got nan"),
        ("share", float("inf"), "expected a finite number, got inf"),
        ("mode", "middling", 'expected "fast" or "slow", got "middling" (a string)'),
        ("calls", "many", 'expected a whole number or "auto", got "many" (a string)'),
        ("names", 1, "expected an array of strings, got 1 (a whole number)"),
        ("on", 1, "expected a boolean, got 1 (a whole number)"),
    ],
)
def test_a_wrong_type_is_said_in_the_words_of_toml(setting, value, message):
    assert problems(**{setting: value}) == [f"r.toml:11: plugins[0].{setting}: {message}"]


def test_right_settings_make_the_plugin():
    settings = {"size": 3, "share": 1, "names": ["a", "b"], "calls": "auto"}
    plugin, wrong = configure(Example, settings)
    assert not wrong
    assert (plugin.size, plugin.share, plugin.names, plugin.calls) == (3, 1, ("a", "b"), "auto")


def test_a_setting_without_a_default_must_be_given():
    @attrs.frozen(kw_only=True, eq=False)
    class Needs:
        metric: str

    _, [problem] = configure(Needs, {})
    assert '"metric" is missing' in str(problem)


def test_a_check_over_several_settings_is_reported_at_the_plugin():
    @attrs.frozen(kw_only=True, eq=False)
    class Either:
        low: float | None = None
        high: float | None = None

        def __attrs_post_init__(self):
            if (self.low is None) == (self.high is None):
                raise ValueError("give low or high, and only one")

    [problem] = Node({}, PLACE).problems(configure(Either, {})[1])
    assert str(problem) == "r.toml:10: plugins[0]: give low or high, and only one"


@given(
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.text()
)
def test_a_value_fits_exactly_the_toml_types_that_its_annotation_names(value):
    assert (not faults_of(value, int)) == (type(value) is int)
    assert (not faults_of(value, float)) == (type(value) in (int, float))
    assert (not faults_of(value, bool)) == (type(value) is bool)
    assert (not faults_of(value, str)) == (type(value) is str)


def test_a_resolved_setting_that_is_none_is_taken_again():
    @attrs.frozen(kw_only=True, eq=False)
    class Optional:
        size: int | None = field(default=None, validator=validators.optional(validators.ge(1)))

    plugin, wrong = configure(Optional, {"size": None})
    assert (plugin.size, wrong) == (None, [])


def test_what_a_third_party_annotates_means_nothing_here():
    @attrs.frozen(kw_only=True, eq=False)
    class Sized:
        size: Annotated[int, "in MiB"] = 8

    plugin, wrong = configure(Sized, {"size": 3})
    assert (plugin.size, wrong) == (3, [])
    assert "a whole number" in str(configure(Sized, {"size": "x"})[1][0])


def test_a_validator_beside_a_bound_has_its_own_words():
    def even(plugin, attribute, value):
        if value % 2:
            raise ValueError("give an even number")

    @attrs.frozen(kw_only=True, eq=False)
    class Even:
        size: int = field(default=8, validator=[validators.ge(1), validators.le(100), even])

    def said(size):
        return str(configure(Even, {"size": size})[1][0])

    assert "give an even number" in said(3)
    assert "expected a whole number of at least 1 and at most 100, got 0" in said(0)


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
        def on_epoch_end(self): ...

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
        ({"low": 2, "hi": 1}, float, 'wrong: hi: unknown key; did you mean "high"?; "high" is'),
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
