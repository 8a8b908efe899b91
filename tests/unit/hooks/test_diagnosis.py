"""What a diagnosis says to plugins: bounds that hold, findings by kind."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hooks_diagnosis import diagnosis

from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.plugin_class import Target
from tfopt_core.plugins import Finding


@pytest.mark.parametrize(
    ("targets", "bound"),
    [
        ((), 1.0),
        (("memory", "convergence"), 1.0),
        (("input",), 8 / 5),  # dispatch and compute are left
        (("compute",), 8 / 4),  # input and dispatch are left
        (("input", "compute"), 8 / 1),
        (("input", "dispatch"), 8 / 4),
        (("compute", "dispatch"), 8 / 3),  # reading the data is left
    ],
)
def test_a_plugin_gains_no_more_than_what_it_can_take_away(targets, bound):
    assert diagnosis().bound(targets) == pytest.approx(bound)


def test_a_loop_may_have_batches_fetched_while_it_computes():
    # 8 s a step at present; side by side input (3 s) and compute (4 s) take 4 s
    assert diagnosis().bound(("dispatch",)) == pytest.approx(2.0)
    # of 6 s of reading, of which 2 s are hidden already, nothing more can be hidden
    assert diagnosis(input_=4, compute=1, data=5.5).bound(("dispatch",)) == pytest.approx(6 / 5.5)


def test_a_plugin_for_compute_cannot_be_faster_than_the_data_are_read():
    # prefetching hides 7 s of reading behind 8 s of computing
    assert diagnosis(input_=0.5, dispatch=0, compute=8, data=7).bound(("compute",)) == (
        pytest.approx(8.5 / 7)
    )


def test_without_a_figure_for_dispatch_its_bound_is_that_of_both():
    told = diagnosis(dispatch=0.0, compute=5.0, dispatch_known=False)
    assert told.bound(("dispatch",)) == told.bound(("compute",)) == pytest.approx(8 / 3)


def test_parts_of_a_step_are_named_like_the_targets_of_plugins():
    assert set(PARTS) < set(get_args(Target))


def test_nothing_bounds_a_plugin_for_everything():
    assert diagnosis().bound(PARTS) == float("inf")


@given(
    seconds=st.tuples(*[st.floats(0, 10)] * 4),
    targets=st.sets(st.sampled_from(PARTS)),
    more=st.sampled_from(PARTS),
)
def test_who_may_take_away_more_is_bounded_by_no_less(seconds, targets, more):
    told = diagnosis(*seconds)
    assert 1.0 <= told.bound(targets) <= told.bound({*targets, more}) * (1 + 1e-9)


def test_findings_are_found_by_kind_and_split():
    told = diagnosis(findings=(Finding(kind="sequential-map", detail="", split="train"),))
    assert told.found("sequential-map")
    assert told.found("sequential-map", "train")
    assert not told.found("sequential-map", "validation")
    assert not told.found("retracing")
