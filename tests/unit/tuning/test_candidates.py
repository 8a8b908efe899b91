"""Which plugins a search tries, in what order, where they go in a stack, and what must leave."""

import attrs
import pytest
from support.diagnosed import make_diagnosed, make_part
from support.drafts import suggestion
from support.simulated_search import make_tune, names_of, plugin, traits_of

from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.hooks.installed.suggest import NoAnswer
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.recipe.model import PluginEntry, Recipe, TuneSpec, WorkloadSpec
from tfopt_core.trials.workload_options import baseline_recipe
from tfopt_core.tuning.candidates import (
    against,
    placed,
    search_space,
    tunables,
    with_options,
    with_values,
    without,
)
from tfopt_core.tuning.context import TuneOptions
from tfopt_core.tuning.results import values_below


def info(
    name, targets=("compute",), equivalence="exact", hooks=(), settings=(), suggests=False,
    **traits,
):  # fmt: skip
    return PluginInfo(
        name=name, distribution="d", version="1", equivalence=equivalence, hooks=hooks,
        settings=settings, suggests=suggests, traits=traits_of(targets=targets, **traits),
    )  # fmt: skip


def space_of(
    *infos, suggestions=(), silent=(), own=None, objective="time", is_script=False,
    only=(), **changes,
):  # fmt: skip
    workload = WorkloadSpec(**({"script": "a.py"} if is_script else {"use": "flights"}))
    tune = make_tune(
        recipe=Recipe(name="r", workload=workload, plugins=named(own)), installed=infos,
        objective=objective, options=TuneOptions(target="here", plugins=only),
    )  # fmt: skip
    diagnosed = attrs.evolve(
        make_diagnosed(suggestions=tuple(suggestions), silent=tuple(silent)), **changes
    )
    return search_space(tune, diagnosed)


def named(own):
    """The plugins that a recipe names, with their settings."""
    return tuple(PluginEntry(name, settings) for name, settings in (own or {}).items())


def tried(space):
    return [one.plugin for one in space.candidates]


def test_what_can_gain_most_is_tried_first():
    bounds = {"a": 1.2, "b": None, "c": 3.0}
    suggestions = [suggestion(name, bound=bound) for name, bound in bounds.items()]
    space = space_of(*map(info, bounds), suggestions=suggestions)
    assert tried(space) == ["b", "c", "a"]


def test_of_two_that_can_gain_as_much_the_one_for_more_parts_of_a_step_is_tried_first():
    targets = {"a": ("dispatch", "compute"), "b": ("input", "compute"),
               "c": ("input", "dispatch", "compute")}  # fmt: skip
    space = space_of(
        *(info(name, targets=each) for name, each in targets.items()),
        suggestions=[suggestion(name, bound=3.0, targets=each) for name, each in targets.items()],
    )
    assert tried(space) == ["c", "a", "b"]


def test_what_answered_the_diagnosis_is_tried_before_what_is_only_for_the_part_that_bounds_it():
    space = space_of(
        info("theirs", targets=("input",)), info("proposed", targets=("compute",)),
        suggestions=[suggestion("proposed", bound=1.1)],
    )  # fmt: skip
    assert tried(space) == ["proposed", "theirs"]


def test_a_plugin_of_a_third_party_without_suggest_is_tried_by_its_targets():
    space = space_of(info("theirs", targets=("input",)), info("other", targets=("convergence",)))
    assert tried(space) == ["theirs"]
    assert space.candidates[0].bound == pytest.approx(1 / 0.7)
    assert "convergence" in space.not_tried["other"]


def test_a_plugin_that_proposes_nothing_here_is_not_tried():
    space = space_of(info("cache", targets=("input",), suggests=True))
    assert space.not_tried == {"cache": "it proposes nothing for this training"}


def test_what_a_noisy_diagnosis_leaves_out_is_named_with_the_noise():
    space = space_of(
        info("cache", targets=("input",)), input_seconds=0.0001, data_seconds=0.0001,
        compute_seconds=0.0089, input=make_part(0.01, 0.0, 0.2),
    )  # fmt: skip
    assert space.not_tried == {
        "cache": "it is for input, which can gain 1.01x at most here; "
        "input took 0% to 20% of a step in single rounds"
    }


def test_the_recipes_own_plugins_come_first_with_their_settings():
    space = space_of(
        info("a"), info("mine", targets=("memory",)), suggestions=[suggestion("a", bound=None)],
        own={"mine": {"size": 3}},
    )  # fmt: skip
    assert tried(space) == ["mine", "a"]
    assert space.candidates[0].settings == {"size": 3}
    # so that no bound keeps the search from trying it
    assert space.candidates[0].most == float("inf")


def test_another_training_algorithm_is_searched_by_time_to_target_only():
    changing = info("fit-batch", equivalence="changes")
    assert "time-to-target" in space_of(changing).not_tried["fit-batch"]
    found = space_of(
        changing,
        objective="time-to-target",
        suggestions=[suggestion("fit-batch", bound=2.0, equivalence="changes")],
    )
    assert tried(found) == ["fit-batch"]


def test_broken_plugins_observers_and_those_without_settings_say_so():
    needed = Setting(name="path", type="a string", default=None, help="")
    space = space_of(
        PluginInfo(name="broken", distribution="d", version="1", error="ImportError: x"),
        info("profile", role="observer"),
        info("needs", equivalence="", settings=(needed,)),
        info("mute"),
        silent=[NoAnswer(plugin="mute", distribution="d", cause="raised ValueError: x")],
    )
    assert tried(space) == []
    assert "ImportError: x" in space.not_tried["broken"]
    assert "observer" in space.not_tried["profile"]
    assert 'it needs "path"' in space.not_tried["needs"]
    assert space.not_tried["mute"] == "raised ValueError: x"


def test_a_script_refuses_what_replaces_its_model():
    space = space_of(info("slim-head", model_change="replaces"), is_script=True)
    assert "script" in space.not_tried["slim-head"]


@pytest.mark.parametrize(
    "how", [{"hooks": ("build_strategy",)}, {"targets": ("input", "communication")}]
)
def test_what_is_for_several_devices_is_tried_where_these_are_and_where_it_is_named(how):
    spread = info("spread", **how)
    assert "for several devices" in space_of(spread).not_tried["spread"]
    assert tried(space_of(spread, own={"spread": {}})) == ["spread"]
    assert tried(space_of(spread, machine={"gpus": [{"name": "G"}] * 2})) == ["spread"]


def test_for_memory_what_targets_memory_is_tried():
    infos = info("remat", targets=("memory",)), info("xla")
    assert tried(space_of(*infos, objective="memory", suggestions=[suggestion("xla")])) == ["remat"]


def test_only_the_plugins_that_are_asked_for_are_tried_whatever_a_diagnosis_says():
    space = space_of(info("a"), info("b", targets=(), suggests=True), only=["b"])
    assert tried(space) == ["b"]
    assert space.candidates[0].most == float("inf")
    assert space.not_tried == {"a": "--plugin does not name it"}


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


def space(stack=STACK, recipe=RECIPE):
    return tunables(make_tune(recipe=recipe, installed=(INFO,)), stack)


def test_settings_of_the_stack_come_before_options_each_with_its_untuned_value():
    assert [(one.key, one.untuned) for one in space()] == [
        ("plugins.l2.strength", 1e-4), ("options.units", 8), ("options.batch_size", 32)
    ]  # fmt: skip


def test_a_setting_that_the_recipe_gives_or_of_a_plugin_outside_is_not_searched():
    given = attrs.evolve(RECIPE, plugins=named({"l2": {"strength": 1e-3}}))
    keys = [one.key for one in space(recipe=given)]
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
