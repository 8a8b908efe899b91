"""Where a plugin goes in a stack, what must leave for it, and how values come into both."""

from __future__ import annotations

from support.simulated_search import candidate, names_of, plugin, traits_of

from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.recipe import Recipe, TuneSpec, WorkloadSpec
from tfopt_core.trials.workload_options import baseline_recipe
from tfopt_core.tuning.stacks import (
    against,
    changed,
    joined,
    option_values,
    placed,
    tunables,
    with_options,
    with_values,
    without,
)


def test_a_plugin_stands_where_the_cards_put_it():
    cache = candidate("cache", traits=traits_of(before=("prefetch",)))
    known = {"prefetch": traits_of(), "cache": cache.traits}
    found = placed(cache, (plugin("prefetch"),), known, frozenset())
    assert names_of(found.stack) == ("cache", "prefetch")


def test_a_conflict_of_either_side_makes_it_take_the_place():
    known = {"chunked": traits_of(conflicts=("resident",)), "resident": traits_of()}
    resident = candidate("resident", traits=known["resident"])
    found = placed(resident, (plugin("chunked"),), known, frozenset())
    assert (names_of(found.stack), found.replaces) == (("resident",), ("chunked",))


def test_what_requires_the_plugin_that_leaves_leaves_too():
    known = {"a": traits_of(), "b": traits_of(requires=("a",)), "c": traits_of(conflicts=("a",))}
    stack = (plugin("a"), plugin("b"))
    found = placed(candidate("c", traits=known["c"]), stack, known, frozenset())
    assert (names_of(found.stack), found.replaces) == (("c",), ("a", "b"))
    assert without("a", stack, known) == ()


def test_a_second_strategy_takes_the_place_of_the_first():
    known = {"mirrored": traits_of(), "one-device": traits_of()}
    found = placed(candidate("mirrored"), (plugin("one-device"),), known, frozenset(known))
    assert names_of(found.stack) == ("mirrored",)


def test_a_missing_requirement_is_said():
    lone = candidate("b", traits=traits_of(requires=("a",)))
    found = placed(lone, (), {"b": lone.traits}, frozenset())
    assert found.why_not == 'it needs "a" in the stack'


def test_plugins_are_joined_but_for_those_that_exclude_one_another_or_are_there():
    traits = {"there": traits_of(), "a": traits_of(conflicts=("b",)), "b": traits_of(),
              "c": traits_of(requires=("a",)), "d": traits_of(requires=("gone",))}  # fmt: skip
    candidates = [candidate(name, traits=one) for name, one in traits.items()]
    stack, names = joined(candidates, (plugin("there"),), traits, frozenset())
    assert names == ("a", "c")
    assert set(names_of(stack)) == {"there", "a", "c"}


RANGE = {"low": 1e-6, "high": 1e-2, "log": True}
INFO = PluginInfo(
    name="l2", distribution="d", version="1",
    settings=(
        Setting(name="strength", type="a number", default="0.0001", help="h", search=RANGE),
        Setting(name="layers", type="an array", default="[]", help="h"),
    ),
)  # fmt: skip
RECIPE = Recipe(
    name="r",
    workload=WorkloadSpec(use="flights", batch_size=32, options={"units": 8, "seed": 1}),
    tune=TuneSpec(objective="time-to-target", options={"units": [8, 16], "batch_size": [32, 64]}),
)
STACK = (plugin("cache"), plugin("l2", strength=1e-4, layers=()))


def test_settings_of_the_stack_come_before_options_each_with_its_untuned_value():
    space = tunables(RECIPE, STACK, (INFO,), {})
    assert [(one.key, one.untuned) for one in space] == [
        ("plugins.l2.strength", 1e-4), ("options.units", 8), ("options.batch_size", 32)
    ]  # fmt: skip


def test_a_setting_that_the_recipe_gives_or_of_a_plugin_outside_is_not_searched():
    keys = [one.key for one in tunables(RECIPE, STACK, (INFO,), {"l2": {"strength": 1e-3}})]
    assert keys == ["options.units", "options.batch_size"]
    assert [one.key for one in tunables(RECIPE, (), (INFO,), {})] == keys


def test_values_come_into_the_stack_and_the_workload():
    space = tunables(RECIPE, STACK, (INFO,), {})
    values = {"plugins.l2.strength": 1e-3, "options.units": 16, "options.batch_size": 64}
    stack = with_values(STACK, values, space)
    assert stack == (plugin("cache"), plugin("l2", strength=1e-3, layers=()))
    workload = with_options(RECIPE, option_values(values, space)).workload
    assert (dict(workload.options), workload.batch_size) == ({"units": 16, "seed": 1}, 64)
    assert with_options(RECIPE, option_values({"plugins.l2.strength": 1e-3}, space)) is RECIPE


def test_what_is_as_it_was_is_no_change():
    space = tunables(RECIPE, STACK, (INFO,), {})
    values = {"plugins.l2.strength": 1e-4, "options.units": 16, "options.batch_size": 32}
    assert changed(values, space) == {"options.units": 16}


def test_the_baseline_of_tuned_options_is_the_training_as_it_was():
    tuned = with_options(RECIPE, {"units": 16, "batch_size": 64, "rate": 0.1})
    compared = against(tuned, RECIPE)
    assert compared.workload == tuned.workload
    assert baseline_recipe(compared).workload == RECIPE.workload
    assert against(RECIPE, RECIPE).measure.baseline is None
