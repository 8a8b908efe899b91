"""Where a plugin goes in a stack, what must leave for it, and how values come into both."""

from __future__ import annotations

from support.simulated_search import make_tune, names_of, plugin, traits_of

from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.recipe.model import Recipe, TuneSpec, WorkloadSpec
from tfopt_core.trials.workload_options import baseline_recipe
from tfopt_core.tuning.results import values_below
from tfopt_core.tuning.stacks import (
    against,
    joined,
    placed,
    tunables,
    with_options,
    with_values,
    without,
)


def trial_of(name, stack, known, owners=()):
    """The trial of a plugin on top of a stack, or why there is none."""
    installed = tuple(
        PluginInfo(name=one, traits=traits, hooks=(OWNER_HOOK,) if one in owners else ())
        for one, traits in known.items()
    )
    return placed(plugin(name), stack, make_tune(installed=installed))


def test_a_plugin_stands_where_the_cards_put_it():
    known = {"prefetch": traits_of(), "cache": traits_of(before=("prefetch",))}
    found = trial_of("cache", (plugin("prefetch"),), known)
    assert names_of(found.stack) == ("cache", "prefetch")


def test_a_conflict_of_either_side_makes_it_take_the_place():
    known = {"chunked": traits_of(conflicts=("resident",)), "resident": traits_of()}
    found = trial_of("resident", (plugin("chunked"),), known)
    assert (names_of(found.stack), found.replaces) == (("resident",), ("chunked",))


def test_what_requires_the_plugin_that_leaves_leaves_too():
    known = {"a": traits_of(), "b": traits_of(requires=("a",)), "c": traits_of(conflicts=("a",))}
    stack = (plugin("a"), plugin("b"))
    found = trial_of("c", stack, known)
    assert (names_of(found.stack), found.replaces) == (("c",), ("a", "b"))
    assert without("a", stack, make_tune(traits=known)) == ()


def test_a_second_strategy_takes_the_place_of_the_first():
    known = {"mirrored": traits_of(), "one-device": traits_of()}
    found = trial_of("mirrored", (plugin("one-device"),), known, owners=known)
    assert names_of(found.stack) == ("mirrored",)


def test_a_missing_requirement_is_said():
    found = trial_of("b", (), {"b": traits_of(requires=("a",))})
    assert found == 'it needs "a" in the stack'


def test_plugins_are_joined_but_for_those_that_exclude_one_another_or_are_there():
    traits = {"there": traits_of(), "a": traits_of(conflicts=("b",)), "b": traits_of(),
              "c": traits_of(requires=("a",)), "d": traits_of(requires=("gone",))}  # fmt: skip
    stack, tune = (plugin("there"),), make_tune(traits=traits)
    trial = joined([plugin(name) for name in traits], stack, tune)
    assert trial.plugins == ("a", "c")
    assert set(names_of(trial.stack)) == {"there", "a", "c"}
    assert joined([plugin("a"), plugin("b")], stack, tune) is None


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


def space(stack=STACK, **given):
    return tunables(make_tune(recipe=RECIPE, installed=(INFO,), **given), stack)


def test_settings_of_the_stack_come_before_options_each_with_its_untuned_value():
    assert [(one.key, one.untuned) for one in space()] == [
        ("plugins.l2.strength", 1e-4), ("options.units", 8), ("options.batch_size", 32)
    ]  # fmt: skip


def test_a_setting_that_the_recipe_gives_or_of_a_plugin_outside_is_not_searched():
    keys = [one.key for one in space(own={"l2": {"strength": 1e-3}})]
    assert keys == ["options.units", "options.batch_size"]
    assert [one.key for one in space(())] == keys


def test_values_come_into_the_stack_and_the_workload():
    values = {"plugins.l2.strength": 1e-3, "options.units": 16, "options.batch_size": 64}
    stack = with_values(STACK, values)
    assert stack == (plugin("cache"), plugin("l2", strength=1e-3, layers=()))
    workload = with_options(RECIPE, values_below(values, "options")).workload
    assert (dict(workload.options), workload.batch_size) == ({"units": 16, "seed": 1}, 64)
    assert with_options(RECIPE, {}) is RECIPE


def test_the_baseline_of_tuned_options_is_the_training_as_it_was():
    tuned = with_options(RECIPE, {"units": 16, "batch_size": 64, "rate": 0.1})
    compared = against(tuned, RECIPE)
    assert compared.workload == tuned.workload
    assert baseline_recipe(compared).workload == RECIPE.workload
    assert against(RECIPE, RECIPE).measure.baseline is None
