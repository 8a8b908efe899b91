"""When a first contact owes its verdict."""

from __future__ import annotations

import pytest

from tfopt_core.app.verdict_time import ALWAYS_TRIED, VerdictTime


def after(seconds: float, training: float | None = None, *, wanted: bool = True) -> VerdictTime:
    times = iter([100.0])
    due = VerdictTime(wanted=wanted, now=lambda: next(times, 100.0 + seconds))
    due.training_seconds = training
    return due


@pytest.mark.parametrize(("training", "due"), [(None, 120.0), (100.0, 120.0), (600.0, 300.0)])
def test_it_is_due_after_two_minutes_or_half_of_one_training(training, due):
    assert after(0.0, training).seconds == due
    assert after(50.0, training).left() == due - 50.0
    assert after(1000.0, training).left() == 0.0


def test_the_time_is_kept_for_the_pairs_once_there_is_something_to_measure():
    assert after(40.0).why_not_try(100, found=True) == ""
    assert after(80.0, 600.0).why_not_try(100, found=True) == ""
    late = after(80.0)
    assert late.why_not_try(ALWAYS_TRIED - 1, found=True) == ""
    assert late.why_not_try(ALWAYS_TRIED, found=True) == (
        "not tried: 80 s have passed, and the rest of the time until a first verdict is for the "
        "pairs"
    )


def test_while_there_is_nothing_to_measure_plugins_are_tried_and_some_in_any_case():
    assert after(80.0).why_not_try(100) == ""
    assert after(300.0).why_not_try(ALWAYS_TRIED - 1) == ""
    late = after(300.0).why_not_try(ALWAYS_TRIED)
    assert late == (
        "not tried: 5 min have passed, and a first contact tries plugins for 2 min at most"
    )


def test_the_plan_names_the_time_before_anything_is_known():
    assert "a first verdict within about 2 min" in after(0.0).plan("train.py")


def test_who_says_how_long_measuring_may_take_wants_no_verdict_before():
    own = after(1e6, wanted=False)
    assert "first verdict" not in own.plan("train.py")
    assert own.why_not_try(10**6) == own.why_not_try(1, found=True) == ""
