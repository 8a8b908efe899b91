"""The page of a search, and what is shown while it runs."""

from __future__ import annotations

import io

import attrs
from support.report_results import show
from support.tuned import make_trial, make_tuned

from tfopt_core.report.live_search import SearchView
from tfopt_core.report.results.as_json import to_json
from tfopt_core.report.style.console import make_console
from tfopt_core.report.tuning import render_tuned
from tfopt_core.tuning.contrast import Contrasted
from tfopt_core.tuning.progress import (
    BoundsFound,
    SearchPhase,
    SettingsTrialEnded,
    TrialBegun,
    TrialEnded,
)
from tfopt_core.tuning.results import (
    BoundStep,
    SettingsProof,
    SettingsSearch,
    SettingsTrial,
    SharedSearch,
    TrialOutcome,
)


def test_the_page_has_each_trial_the_proof_and_the_cost():
    page = " ".join(show(render_tuned(make_tuned()), width=120).split())
    assert "1.30x (1.20 to 1.41)" in page
    assert "2 pairs" in page
    assert "out of memory: it ran out" in page
    assert "prefetch taken out" in page
    assert "tpu: no TPU" in page
    assert "--plugin NAME tries one that it left out" in page
    assert "the search took 300 s" in page
    assert make_tuned().proof.comparison.headline in page


def test_at_80_columns_no_name_of_a_plugin_is_parted():
    long = "steps-per-execution"
    trials = (
        make_trial(long, TrialOutcome.IN, joined_by=("autotune", "prefetch")),
        make_trial("chunked", TrialOutcome.NO_GAIN, on=("autotune",), replaces=(long,)),
        make_trial("split-batch", TrialOutcome.IN, on=(long, "autotune", "prefetch")),
    )
    page = show(render_tuned(make_tuned(trials=trials)), width=80)
    table = page.split("Trials")[1].split("A figure is")[0]
    assert table.count(long) == 3
    assert "split-batch" in table


def test_a_trial_without_a_figure_says_why_it_ended_as_it_did():
    missed = make_trial("l2", TrialOutcome.WORSE, reason="it missed", ratio=None, pairs=0)
    page = show(render_tuned(make_tuned(trials=(missed,))), width=100)
    assert "worse: it missed" in page


SETTINGS = SettingsSearch(
    sampler="random", pruner="median", planned=9, metric="val_accuracy",
    untuned={"options.units": 8}, best={"options.units": 16},
    trials=(
        SettingsTrial(values={}, outcome=TrialOutcome.MEASURED, figure=-0.5, quality=0.5),
        SettingsTrial(
            values={"options.units": 16, "plugins.l2.strength": 1e-5},
            outcome=TrialOutcome.PRUNED, reason="it learned worse",
        ),
    ),
    proof=SettingsProof(confirmed=True, statement="better, 0.7 against 0.5", pairs=()),
)  # fmt: skip


def test_the_page_has_each_trial_of_settings_and_their_proof():
    result = make_tuned(settings=SETTINGS, objective="quality", proof=None)
    page = " ".join(show(render_tuned(result), width=120).split())
    assert "untuned 0.5 measured" in page
    assert "units 16, l2.strength 1e-05 - pruned: it learned worse" in page
    assert "units 16 in place of 8" in page
    assert "better, 0.7 against 0.5" in page
    assert to_json(result)["settings"]["trials"][1]["outcome"] == "pruned"


def test_values_that_are_no_better_are_said_once_and_no_stack_is_called_the_best():
    nothing = "none of the values is better"
    result = make_tuned(
        settings=attrs.evolve(SETTINGS, best={}, proof=None, statement=nothing),
        objective="quality", proof=None, statement=f"nothing helps here: {nothing}",
    )  # fmt: skip
    page = " ".join(show(render_tuned(result), width=120).split())
    assert page.count(nothing) == 1
    assert "Best stack" not in page


def test_a_shared_search_says_how_many_trials_are_whose_and_where_each_was_made():
    shared = SharedSearch(
        storage="postgresql://me:***@host/db", study="tfopt-1", made={"": 2, "node-b": 3},
        under_way=1,
    )  # fmt: skip
    theirs = attrs.evolve(SETTINGS.trials[1], machine="node-b")
    found = attrs.evolve(SETTINGS, trials=(SETTINGS.trials[0], theirs), shared=shared)
    page = " ".join(show(render_tuned(make_tuned(settings=found)), width=120).split())
    assert (
        "Shared by postgresql://me:***@host/db: 5 trials, 2 of them on this machine, 3 on "
        "node-b; 1 still under way."
    ) in page
    assert "pruned: it learned worse, on node-b" in page


def test_a_trial_of_settings_is_one_line_and_moves_the_live_view_on():
    event = SettingsTrialEnded(trial=SETTINGS.trials[1], number=2, planned=9, seconds_left=50.0)
    view = SearchView(make_console(file=io.StringIO(), environ={}))
    [line] = view.lines(event)
    assert line.startswith("trial 2 of 9, units 16, l2.strength 1e-05: pruned")
    assert "50 s left" in line
    view.follow(event, now=1.0)
    assert "1 trial, " in show(view.render(now=2.0))


def test_no_figure_of_the_search_is_called_a_gain():
    page = show(render_tuned(make_tuned(proof=None, statement="")), width=120)
    assert "faster" not in page
    assert "none of them is a measured gain" in " ".join(page.split())


def test_the_json_has_the_trials_as_they_are():
    data = to_json(make_tuned())
    assert data["trials"][0]["outcome"] == "in"
    assert data["proof"]["comparison"]["verdict"] == "faster"
    assert data["not_tried"] == [{"plugin": "tpu", "reason": "no TPU"}]


def test_piped_there_is_one_line_a_trial():
    stream = io.StringIO()
    with SearchView(make_console(file=stream, environ={})) as observer:
        observer(TrialBegun(make_trial("xla", TrialOutcome.FAILED), 60.0))
        observer(Contrasted(1.3, None, None, None, 1))
        observer(TrialEnded(make_trial("xla", TrialOutcome.IN), 50.0))
    [line] = stream.getvalue().splitlines()
    assert line.startswith("with xla: 1.30x (80% interval 1.20 to 1.41, 2 pairs), in")
    assert "50 s left" in line


def test_the_live_view_shows_the_bound_the_candidate_its_interval_and_the_time_left():
    view = SearchView(make_console(file=io.StringIO(), environ={}))
    for event in (
        BoundsFound(BoundStep(stack=(), sentence="60% of a step is compute", shares={}), 3),
        TrialBegun(make_trial("xla", TrialOutcome.FAILED, on=("cache",)), 100.0),
        Contrasted(1.3, 1.2, 1.4, 0.8, 2),
    ):
        view.follow(event, now=10.0)
    page = show(view.render(now=30.0))
    assert "now: 60% of a step is compute" in page
    assert "trying xla beside cache" in page
    assert "1.30x (1.20 to 1.40) in 2 pairs so far" in page
    assert "80 s left" in page


def test_fresh_pairs_of_values_stay_in_the_live_view_with_the_time_that_they_take():
    event = SearchPhase("fresh pairs of the best values: 4 of whole trainings", seconds_left=80.0)
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    console = make_console(width=100, file=stream, environ={"TERM": "xterm"})
    with SearchView(console) as view:
        view.follow(event, now=10.0)
        page = show(view.render(now=30.0))
        assert "fresh pairs of the best values: 4 of whole trainings" in page
        assert "60 s left\n" in page
        assert view.live is not None
        assert view.live.is_started
        view(SearchPhase("fresh pairs of the winner", measurement=True))
        assert not view.live.is_started  # a measurement has a view of its own
