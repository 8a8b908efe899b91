"""The page of a search, and what is shown while it runs."""

from __future__ import annotations

import io

import attrs
from support.report_results import show
from support.tuned import make_trial, make_tuned

from tfopt_core.records.tuning import BoundStep, TrialOutcome
from tfopt_core.report.live.search import (
    SearchLines,
    SearchState,
    after_search_event,
    make_search_observer,
    render_search,
)
from tfopt_core.report.results.as_json import to_json
from tfopt_core.report.style.console import make_console
from tfopt_core.report.style.trials import OUTCOME_COLORS
from tfopt_core.report.tuning import render_tuned
from tfopt_core.tuning.progress import BoundsFound, PairDone, TrialBegun, TrialEnded


def test_the_page_has_each_trial_the_proof_and_the_cost():
    page = " ".join(show(render_tuned(make_tuned()), width=120).split())
    assert "1.30x (1.20 to 1.41), 2 pairs" in page
    assert "out of memory: it ran out" in page
    assert "prefetch taken out" in page
    assert "tpu: no TPU" in page
    assert "80 trainings repay it" in page
    assert make_tuned().proof.comparison.headline in page


def test_no_figure_of_the_search_is_called_a_gain():
    page = show(render_tuned(make_tuned(proof=None, statement="")), width=120)
    assert "faster" not in page
    assert "none of them is a gain" in " ".join(page.split())


def test_a_search_that_begins_from_another_says_so():
    page = " ".join(show(render_tuned(make_tuned(begun_from=("20261122-a",)))).split())
    assert "begins from the trials of 20261122-a" in page


def test_every_outcome_has_a_color():
    assert set(OUTCOME_COLORS) == set(TrialOutcome)


def test_the_json_has_the_trials_as_they_are():
    data = to_json(make_tuned())
    assert data["trials"][0]["outcome"] == "in"
    assert data["proof"]["comparison"]["verdict"] == "faster"
    assert data["not_tried"] == [{"plugin": "tpu", "reason": "no TPU"}]


def test_piped_there_is_one_line_a_trial():
    stream = io.StringIO()
    observer = make_search_observer(make_console(file=stream, environ={}))
    assert isinstance(observer, SearchLines)
    with observer:
        observer(TrialBegun(action="add", plugin="xla", on=(), seconds_left=60.0))
        observer(PairDone(ratio=1.3, low=None, high=None, pairs=1))
        observer(TrialEnded(make_trial("xla", TrialOutcome.IN), 50.0))
    [line] = stream.getvalue().splitlines()
    assert line.startswith("with xla: 1.30x (80% interval 1.20 to 1.41, 2 pairs), in")
    assert "50 s left" in line


def test_the_live_view_shows_the_bound_the_candidate_its_interval_and_the_time_left():
    state = SearchState()
    for event in (
        BoundsFound(BoundStep(stack=(), sentence="60% of a step is compute", shares={}), 3),
        TrialBegun(action="add", plugin="xla", on=("cache",), seconds_left=100.0),
        PairDone(ratio=1.3, low=1.2, high=1.4, pairs=2),
    ):
        state = after_search_event(state, event, now=10.0)
    page = show(render_search(state, now=30.0))
    assert "now: 60% of a step is compute" in page
    assert "trying xla beside cache" in page
    assert "1.30x (1.20 to 1.40) in 2 pairs so far" in page
    assert "80 s left" in page


def test_an_interrupted_search_says_what_goes_on():
    page = show(render_tuned(attrs.evolve(make_tuned(), why_ended="interrupted; --resume goes on")))
    assert "--resume goes on" in page
