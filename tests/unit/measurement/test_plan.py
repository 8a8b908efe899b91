"""What is measured in which order, beside which controls, and when no more."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measure_runs import make_judgement, make_pairs, make_request, make_run
from support.report_results import make_prepared

from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.groups import failed_for_good, speedup_so_far
from tfopt_core.measurement.plan import (
    MOST_PAIRS,
    MeasurementState,
    leave_one_out,
    plan_of,
    schedule,
)
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe.model import MeasureSpec, QualitySpec, Recipe, WorkloadSpec
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.trials.request import Variant


def planned(
    plugins=("p",), training_seconds=60.0, epochs=10, several=False, certified=False, forks=False,
    seconds_to_fit=0.0, **spec,
) -> MeasurementState:  # fmt: skip
    recipe = Recipe(name="r", workload=WorkloadSpec(use="w"), measure=MeasureSpec(**spec))
    stack = tuple(StackedPlugin(name, Plugin()) for name in plugins)
    request = make_request(recipe=recipe, plugins=stack)
    prepared = make_prepared(
        plugins=(), quality_metric="loss", quality_direction="min", epochs=epochs,
        steps_per_epoch=10, validation_examples=None, training_seconds=training_seconds,
        seconds=10.0, several_processes=several, seconds_to_fit=seconds_to_fit,
    )  # fmt: skip
    certificates = {"full": Certificate(kind="certified", statement="")} if certified else {}
    return plan_of(request, prepared, seed=1, certificates=certificates, forks=forks)


def test_as_many_pairs_as_a_minute_and_a_half_holds_and_a_number_that_is_given_stays():
    plan = planned()
    # the process and the seconds; an epoch comes first if four of them begin in that time
    assert plan.group_seconds == pytest.approx(2 * (1.0 + 2.5 + 3.0))
    assert (plan.pairs, plan.warm_seconds, plan.isolating, plan.note) == (6, 2.5, False, "")
    assert planned(forks=True).pairs == 9
    assert planned(forks=True, seconds_to_fit=9.0).pairs == 6  # no fewer
    assert planned(pairs=12).pairs == 12
    assert planned(seconds=8).warm_seconds == 8.0
    whole = planned(seconds="whole")
    assert whole.warm_seconds is None
    assert whole.pairs == 6
    assert whole.group_seconds == pytest.approx(2 * 63.0)
    assert planned(training_seconds=2.0).group_seconds == pytest.approx(2 * 5.0)
    assert planned(several=True).group_seconds is None


def test_a_run_is_longer_where_that_holds_enough_epochs_for_a_total():
    found = {epoch: planned(training_seconds=10 * epoch) for epoch in (0.2, 0.5, 1.25, 1.3)}
    assert [plan.warm_seconds for plan in found.values()] == [2.5, 3.0, 5.0, 2.5]
    assert found[0.5].group_seconds == pytest.approx(2 * (0.5 + 1.0 + 3.0 + 3.0))


def test_whole_trainings_judge_a_quality_that_no_replay_certifies_where_they_take_little_time():
    quality = QualitySpec("val_accuracy")
    assert planned(quality=quality).warm_seconds is None
    assert planned(quality=quality, certified=True).warm_seconds == 2.5
    assert planned(quality=quality, seconds=5).warm_seconds == 5.0
    long = planned(quality=quality, training_seconds=3600.0)
    assert long.warm_seconds == 2.5
    assert "would take about 12.0 h" in long.note
    assert "not judged" in planned(quality=quality, budget_seconds=300).note
    assert "any time" in planned(quality=quality, training_seconds=None).note
    isolated = {"quality": quality, "attribution": "leave-one-out", "training_seconds": 100.0}
    assert planned(**isolated).warm_seconds is None
    assert planned(("p", "q", "r"), **isolated).warm_seconds == 2.5
    assert planned(quality=quality, budget_seconds=600).warm_seconds is None


@pytest.mark.parametrize("budget", [60, 90, 120, 300, 1200])
def test_a_budget_holds_what_it_chooses(budget):
    plan = planned(budget_seconds=budget)
    assert 4 <= plan.pairs <= MOST_PAIRS
    assert 10.0 + plan.pairs * plan.group_seconds <= budget or plan.note
    assert not plan.note or (budget == 60 and "more than the budget of 60 s" in plan.note)
    assert planned(budget_seconds=2 * budget).pairs > plan.pairs or plan.pairs == MOST_PAIRS


def test_forks_which_start_at_once_leave_a_budget_for_more_pairs():
    found = [planned(training_seconds=5.0, budget_seconds=202, seconds="whole", forks=forks)
             for forks in (False, True)]  # fmt: skip
    assert [plan.pairs for plan in found] == [12, 16]


def test_a_budget_leaves_seconds_that_are_given_as_they_are():
    assert planned(budget_seconds=60).warm_seconds == 2.0
    assert planned(seconds=5, budget_seconds=60).warm_seconds == 5.0


def test_each_plugin_is_left_out_in_turn_where_that_takes_little_time():
    two = ("p", "q")
    assert not planned(two, attribution="off").isolating
    assert planned(two, attribution="leave-one-out").isolating
    assert not planned(two).isolating  # six groups of four runs of 6.5 s
    assert planned(two, training_seconds=0.5).isolating
    assert planned(two, budget_seconds=300).isolating
    assert not planned(training_seconds=0.5).isolating  # one plugin is the whole stack


# Order and seeds of the runs


@attrs.frozen(kw_only=True, eq=False)
class Some(Plugin):
    @hookimpl
    def configure_runtime(self, options):
        return options


class Needs(Some):
    requires = ("a",)


A, B, C = StackedPlugin("a", Some()), StackedPlugin("b", Needs()), StackedPlugin("c", Some())
SIDES = (Variant("baseline", ()), Variant("full", (A,)))


def orders_of(seed, rounds):
    """Which variant begins each round: "b" for the baseline, "f" for the full stack."""
    runs = (schedule(seed, round_, SIDES) for round_ in range(rounds))
    return "".join(first.variant.name[0] for first, _ in runs)


@given(st.integers(0, 2**31))
def test_each_two_rounds_are_abba_or_baab(seed):
    orders = orders_of(seed, 12)
    assert {orders[i : i + 2] for i in range(0, 12, 2)} <= {"bf", "fb"}


def test_which_of_both_comes_is_drawn_anew_for_each_two_rounds():
    drawn = {orders_of(seed, 6) for seed in range(200)}
    assert drawn == {a + b + c for a in ("bf", "fb") for b in ("bf", "fb") for c in ("bf", "fb")}


def test_a_round_shares_one_seed_that_no_other_round_has():
    rounds = [schedule(5, r, SIDES) for r in range(12)]
    assert all(len({run.seed for run in runs}) == 1 for runs in rounds)
    assert len({runs[0].seed for runs in rounds}) == 12


def test_three_variants_come_in_random_order_each_once():
    variants = [Variant(name, ()) for name in "xyz"]
    orders = {tuple(t.variant.name for t in schedule(5, r, variants)) for r in range(30)}
    assert len(orders) > 3
    assert all(sorted(order) == ["x", "y", "z"] for order in orders)


def test_leaving_one_out_takes_along_what_needs_it():
    variants, contrasts = leave_one_out([A, B, C])
    names = {v.name: [p.name for p in v.plugins] for v in variants}
    assert names == {"without a and b": ["c"], "without b": ["a", "c"], "without c": ["a", "b"]}
    assert [(c.plugin, c.group, c.without) for c in contrasts] == [
        ("a", ("a", "b"), "without a and b"), ("b", ("b",), "without b"),
        ("c", ("c",), "without c"),
    ]  # fmt: skip


def test_a_group_that_is_the_whole_stack_is_judged_against_the_baseline():
    variants, contrasts = leave_one_out([A, B])
    assert [variant.name for variant in variants] == ["without b"]
    assert contrasts[0].group == ("a", "b")
    assert contrasts[0].without == "baseline"


def test_a_single_plugin_needs_no_further_contrast():
    assert leave_one_out([A]) == ([], [])


# Whether to go on, from the runs so far


def test_two_failures_without_a_success_are_for_good():
    once = [make_run("full", 0, 1.0, status="failed")]
    assert failed_for_good(once) == set()
    twice = [*once, make_run("full", 1, 1.0, status="failed")]
    assert failed_for_good(twice) == {"full"}
    saved = [*twice, make_run("full", 2, 1.0)]
    assert failed_for_good(saved) == set()
    other = [make_run("without p", i, 1.0, status="failed") for i in range(2)]
    assert failed_for_good(other) == {"without p"}


def test_the_speedup_so_far_is_that_of_complete_pairs():
    assert speedup_so_far([make_run("baseline", 0, 10.0)], make_judgement()) is None
    pairs = make_pairs([10.0, 10.0], [5.0, 5.0])
    assert abs(speedup_so_far(pairs, make_judgement()) - 2.0) < 1e-12
