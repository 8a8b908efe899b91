"""The options in which a stack differs from its baseline: who trains with them, what is refused."""

import pickle

import pytest
from support.measure_runs import make_request

from tfopt_core.commands.check import check_recipe
from tfopt_core.errors import RecipeError
from tfopt_core.hooks.contract import check_class
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.plan import leave_one_out
from tfopt_core.plugins import Plugin
from tfopt_core.recipe.model import BaselineSpec, MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.statistics.runs import BASELINE, FULL
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import ScheduledRun, Variant, with_settings
from tfopt_core.trials.workload_options import (
    NAME,
    WorkloadOptions,
    baseline_faults,
    in_words,
    options_in_stack,
    recipe_of_variant,
)


def recipe(workload=None, **baseline):
    given = {"factory": "a.py:build", "batch_size": 64, "options": {"rate": 0.1, "units": 16}}
    return Recipe(
        name="r", workload=WorkloadSpec(**(given if workload is None else workload)),
        measure=MeasureSpec(baseline=BaselineSpec(**baseline)),
    )  # fmt: skip


class Other(Plugin):
    """Stands for any plugin."""


def options_of(variant, whole, of):
    workload = recipe_of_variant(of, whole, variant).workload
    return dict(workload.options), workload.batch_size


def test_each_variant_trains_with_the_options_that_stand_in_its_stack():
    tuned = recipe(batch_size=32, options={"rate": 0.01}, defaults=("units",))
    [options] = options_in_stack(tuned)
    whole = (options, StackedPlugin("other", Other()))
    here, there = ({"rate": 0.1, "units": 16}, 64), ({"rate": 0.01}, 32)
    variants, contrasts = leave_one_out(whole)
    assert {one.name: options_of(one.plugins, whole, tuned) for one in variants} == {
        f"without {NAME}": there, "without other": here,
    }  # fmt: skip
    assert options_of((), whole, tuned) == there
    assert {one.plugin for one in contrasts} == {NAME, "other"}
    # a command that compares nothing trains with the workload as it is
    assert options_of((), whole[1:], tuned) == here


def test_the_jobs_of_a_measurement_have_them(tmp_path):
    tuned = recipe(options={"rate": 0.01})
    request = make_request(recipe=tuned, plugins=options_in_stack(tuned), folder=tmp_path)
    jobs = {}

    def runner(task, environment, tell):
        jobs[task.job.variant] = task.job.recipe.workload.options["rate"]
        raise KeyboardInterrupt

    for stack in ((), request.plugins):
        variant = Variant(FULL if stack else BASELINE, stack)
        with pytest.raises(KeyboardInterrupt):
            Processes(request, runner).run(
                ScheduledRun(0, 0, variant, 1), "0", lambda message: None
            )
    assert jobs == {"baseline": 0.01, "full": 0.1}


def test_it_is_a_plugin_that_changes_the_training_and_says_what_it_is_in_place_of():
    [options] = options_in_stack(recipe(options={"rate": 0.01}, defaults=("batch_size",)))
    check_class(NAME, type(options.plugin))
    assert options.plugin.equivalence == "changes"
    assert options.settings == {
        "values": {"rate": 0.1, "batch_size": 64},
        "in_place_of": {"rate": 0.01, "batch_size": None},
    }
    effect = options.plugin.report_effect(None, None, None)
    assert effect.applied
    assert effect.detail == (
        "rate 0.1 in place of 0.01, batch_size 64 in place of the workload's own"
    )
    # it comes back from a process, and from the store, as it was
    [again] = with_settings((options,), [options.settings])
    assert again.settings == options.settings
    assert pickle.loads(pickle.dumps(options.plugin)).values == options.plugin.values


@pytest.mark.parametrize(
    ("workload", "baseline", "key", "why"),
    [
        ({"script": "a.py"}, {"options": {"rate": 1}}, "", "there is a script"),
        (None, {"options": {"rate": 0.1}}, "", "so nothing differs"),
        (None, {"options": {"rate": 1}, "defaults": ("rate",)}, "defaults[0]", "a value"),
        (None, {"batch_size": 1, "defaults": ("batch_size",)}, "defaults[0]", "a value"),
        (None, {"batch_size": 1, "defaults": ("depth",)}, "defaults[0]", 'no "depth"'),
    ],
)
def test_a_baseline_that_makes_no_difference_or_no_sense_is_refused(workload, baseline, key, why):
    faults = list(baseline_faults(recipe(workload, **baseline)))
    assert len(faults) == 1
    assert faults[0][0] == key
    assert why in faults[0][1]


def test_none_stands_in_a_stack_without_a_baseline_of_its_own():
    plain = Recipe(name="r", workload=WorkloadSpec(factory="a.py:build"))
    assert options_in_stack(plain) == ()
    assert list(baseline_faults(plain)) == []
    assert in_words({}, {}) == ""
    assert WorkloadOptions.targets == ("convergence",)


def test_what_is_wrong_with_a_baseline_is_said_at_its_key_before_anything_runs(tmp_path):
    (tmp_path / "a.py").write_text("")
    path = tmp_path / "recipe.toml"

    def problems(baseline, target='target = { metric = "val_loss", at_most = 1 }'):
        path.write_text(
            'name = "r"\n[workload]\nfactory = "a.py:build"\n[workload.options]\nrate = 0.1\n'
            f"[measure]\n{target}\nbaseline = {baseline}\n"
        )
        try:
            return check_recipe(path).plugins
        except RecipeError as error:
            return [(one.path, one.line) for one in error.problems]

    # the options alone are a stack
    assert [one.name for one in problems("{ options = { rate = 0.2 } }")] == [NAME]
    assert ("measure.baseline", 8) in problems("{ options = { rate = 0.1 } }")
    # a training without a baseline is not concerned
    assert check_recipe(path, compares=False).plugins == ()
    assert problems('{ defaults = ["rat"], batch_size = 2 }') == [
        ("measure.baseline.defaults[0]", 8)
    ]
    assert ("measure.baseline.rate", 8) in problems("{ rate = 0.2 }")
    # options change the training, so they are judged by a target
    assert [path for path, _ in problems("{ options = { rate = 0.2 } }", "")] == ["measure.target"]
