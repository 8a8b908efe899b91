"""What is searched, and how values come into a stack and a recipe."""

from __future__ import annotations

from support.simulated_search import plugin

from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.recipe import Recipe, TuneSpec, WorkloadSpec
from tfopt_core.tuning.tunables import changed, tunables, with_options, with_values

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
    tune=TuneSpec(objective="quality", options={"units": [8, 16], "batch_size": [32, 64]}),
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
    workload = with_options(RECIPE, values, space).workload
    assert (dict(workload.options), workload.batch_size) == ({"units": 16, "seed": 1}, 64)
    assert with_options(RECIPE, {"plugins.l2.strength": 1e-3}, space) is RECIPE


def test_what_is_as_it_was_is_no_change():
    space = tunables(RECIPE, STACK, (INFO,), {})
    values = {"plugins.l2.strength": 1e-4, "options.units": 16, "options.batch_size": 32}
    assert changed(values, space) == {"options.units": 16}
