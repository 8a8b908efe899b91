"""What a measurement decides before its first group."""

from __future__ import annotations

import pytest
from support.measure_runs import make_request
from support.report_results import make_prepared

from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.plan import MOST_PAIRS, MeasurementState, plan_of
from tfopt_core.plugins import Plugin
from tfopt_core.recipe.model import MeasureSpec, QualitySpec, Recipe, WorkloadSpec
from tfopt_core.statistics.certificate import Certificate


def planned(
    plugins=("p",),
    training_seconds=60.0,
    epochs=10,
    several=False,
    certified=False,
    **spec,
) -> MeasurementState:
    recipe = Recipe(name="r", workload=WorkloadSpec(use="w"), measure=MeasureSpec(**spec))
    stack = tuple(StackedPlugin(name, Plugin()) for name in plugins)
    request = make_request(recipe=recipe, plugins=stack)
    prepared = make_prepared(
        plugins=(), quality_metric="loss", quality_direction="min", epochs=epochs,
        steps_per_epoch=10, validation_examples=None, training_seconds=training_seconds,
        seconds=10.0, several_processes=several,
    )  # fmt: skip
    certificate = Certificate(kind="certified", statement="") if certified else None
    return plan_of(request, prepared, seed=1, certificate=certificate)


def test_six_groups_of_five_seconds_a_side_and_a_number_that_is_given_stays():
    plan = planned()
    assert (plan.pairs, plan.warm_seconds, plan.isolating, plan.note) == (6, 5.0, False, "")
    # the process and five seconds; an epoch comes first if four of them begin in that time
    assert plan.group_seconds == pytest.approx(2 * (5.0 + 3.0))
    assert planned(training_seconds=20.0).group_seconds == pytest.approx(2 * (5.0 + 3.0))
    assert planned(training_seconds=10.0).group_seconds == pytest.approx(2 * (1.0 + 5.0 + 3.0))
    assert planned(pairs=12).pairs == 12
    assert planned(seconds=8).warm_seconds == 8.0
    whole = planned(seconds="whole")
    assert whole.warm_seconds is None
    assert whole.group_seconds == pytest.approx(2 * 63.0)
    assert planned(training_seconds=2.0).group_seconds == pytest.approx(2 * 5.0)
    assert planned(several=True).group_seconds is None


def test_whole_trainings_judge_a_quality_that_no_replay_certifies_where_they_take_little_time():
    quality = QualitySpec("val_accuracy")
    assert planned(quality=quality).warm_seconds is None
    assert planned(quality=quality, certified=True).warm_seconds == 5.0
    assert planned(quality=quality, seconds=5).warm_seconds == 5.0
    long = planned(quality=quality, training_seconds=3600.0)
    assert long.warm_seconds == 5.0
    assert "would take about 12.0 h" in long.note
    assert "not judged" in planned(quality=quality, budget_seconds=300).note
    assert "any time" in planned(quality=quality, training_seconds=None).note
    isolated = {"quality": quality, "attribution": "leave-one-out", "training_seconds": 100.0}
    assert planned(**isolated).warm_seconds is None
    assert planned(("p", "q", "r"), **isolated).warm_seconds == 5.0
    assert planned(quality=quality, budget_seconds=600).warm_seconds is None


@pytest.mark.parametrize("budget", [60, 90, 120, 300, 1200])
def test_a_budget_holds_what_it_chooses(budget):
    plan = planned(budget_seconds=budget)
    assert 4 <= plan.pairs <= MOST_PAIRS
    assert 10.0 + plan.pairs * plan.group_seconds <= budget or plan.note
    assert not plan.note or (budget == 60 and "more than the budget of 60 s" in plan.note)
    more = planned(budget_seconds=2 * budget)
    assert (more.pairs, more.warm_seconds) >= (plan.pairs, plan.warm_seconds) or more.pairs > 6


def test_a_budget_leaves_seconds_that_are_given_as_they_are():
    assert planned(budget_seconds=60).warm_seconds < 5.0
    assert planned(seconds=5, budget_seconds=60).warm_seconds == 5.0


def test_each_plugin_is_left_out_in_turn_where_that_takes_little_time():
    two = ("p", "q")
    assert not planned(two, attribution="off").isolating
    assert planned(two, attribution="leave-one-out").isolating
    assert not planned(two).isolating  # six groups of four runs of 8 s
    assert planned(two, training_seconds=1.0).isolating
    assert planned(two, budget_seconds=300).isolating
    assert not planned(training_seconds=1.0).isolating  # one plugin is the whole stack
