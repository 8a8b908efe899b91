"""Order and seeds of the runs."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.plan import leave_one_out, schedule
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.records.variants import Variant


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
    assert names == {
        "without a and b": ["c"], "without b": ["a", "c"], "without c": ["a", "b"],
    }  # fmt: skip
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
