"""The page of a search, and what is shown while it runs."""

from __future__ import annotations

import io

import attrs
from support.report_results import show
from support.tuned import make_trial, make_tuned

from tfopt_core.commands.output import to_json
from tfopt_core.report.style.console import make_console
from tfopt_core.report.tuning import render_trial, render_tuned, show_search
from tfopt_core.tuning.results import SettingsSearch, SettingsTrial, SharedSearch, TrialOutcome


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
        SettingsTrial(values={"options.units": 9}, outcome=TrialOutcome.MEASURED, figure=1.2),
        SettingsTrial(
            values={"options.units": 16, "plugins.l2.strength": 1e-5},
            outcome=TrialOutcome.PRUNED, reason="it learned worse",
        ),
    ),
)  # fmt: skip


def test_the_page_has_each_trial_of_settings_and_the_best_values():
    result = make_tuned(settings=SETTINGS, objective="time-to-target")
    page = " ".join(show(render_tuned(result), width=120).split())
    assert "units 9 1.20x measured" in page
    assert "units 16, l2.strength 1e-05 - pruned: it learned worse" in page
    assert "units 16 in place of 8" in page
    assert to_json(result)["settings"]["trials"][1]["outcome"] == "pruned"


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


def test_a_trial_is_one_line():
    assert render_trial(SETTINGS.trials[1]).plain == (
        "units 16, l2.strength 1e-05: -, pruned: it learned worse"
    )
    replaces = make_trial("xla", TrialOutcome.IN, on=("cache",), replaces=("loop",))
    assert render_trial(replaces).plain == (
        "with xla beside cache in place of loop: 1.30x (80% interval 1.20 to 1.41, 2 pairs), in"
    )


def test_no_figure_of_the_search_is_called_a_gain():
    page = show(render_tuned(make_tuned(proof=None, statement="")), width=120)
    assert "faster" not in page
    assert "none of them is a measured gain" in " ".join(page.split())


def test_the_json_has_the_trials_as_they_are():
    data = to_json(make_tuned())
    assert data["trials"][0]["outcome"] == "in"
    assert data["proof"]["comparison"]["verdict"] == "faster"
    assert data["not_tried"] == [{"plugin": "tpu", "reason": "no TPU"}]


def test_piped_there_is_one_line_a_phase_and_a_trial():
    stream = io.StringIO()
    with show_search(make_console(file=stream, environ={})) as observer:
        observer("trying xla, 1 min left to search")
        observer(make_trial("xla", TrialOutcome.IN))
    first, second = stream.getvalue().splitlines()
    assert first == "trying xla, 1 min left to search"
    assert second == "with xla: 1.30x (80% interval 1.20 to 1.41, 2 pairs), in"
