"""What is shown while a measurement or a search runs, and the page of a search."""

import io
import threading

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.report_results import Terminal, make_prepared, make_run, show
from support.tuned import make_trial, make_tuned

from tfopt_core.commands.output import to_json
from tfopt_core.measurement.plan import MeasurementState
from tfopt_core.measurement.progress import (
    Certifying,
    Noted,
    Preparing,
    Ready,
    RunEnded,
    RunProgress,
    RunStarted,
)
from tfopt_core.report.live import MeasurementView
from tfopt_core.report.style.console import make_console
from tfopt_core.report.tuning import render_trial, render_tuned, show_search
from tfopt_core.tuning.results import SettingsSearch, SettingsTrial, SharedSearch, TrialOutcome

READY = Ready(
    prepared=make_prepared(seconds=4.2, epochs=5, steps_per_epoch=1875,
                           warnings=("no validation data\x1b[31m",)),
    state=MeasurementState(seed=1, pairs=4), total_runs=8,
)  # fmt: skip
STARTED = RunStarted(index=2, total_runs=8, variant="full")
PROGRESS = RunProgress(run=STARTED, epoch=1, epochs=5, step=900, steps_per_epoch=1875,
                       metrics={"val_accuracy": 0.89, "loss": 0.31})  # fmt: skip
ENDED = RunEnded(index=2, total_runs=8, run=make_run(2, "full"), speedup_so_far=1.24,
                 seconds_left=200.0)  # fmt: skip
FAILED = RunEnded(
    index=3, total_runs=8, speedup_so_far=None, seconds_left=None,
    run=make_run(3, "without [/red]", status="failed", fits=(), error="killed\nby SIGKILL"),
)  # fmt: skip
UNKNOWN = RunProgress(run=STARTED, epoch=0, epochs=0, step=-1, steps_per_epoch=None, metrics={})
EVENTS = (
    Preparing(),
    Certifying(),
    Noted("[/red] so"),
    READY,
    STARTED,
    PROGRESS,
    ENDED,
    FAILED,
    UNKNOWN,
)


def planned(**changes):
    return attrs.evolve(READY, state=attrs.evolve(READY.state, **changes))


def terminal(stream, **environ):
    return make_console(width=80, file=stream, environ={"TERM": "xterm", **environ})


def piped(width=80):
    """A view where nothing can be redrawn, and what it prints."""
    stream = io.StringIO()
    return MeasurementView(make_console(width=width, file=stream, environ={})), stream


def seen(*events, now=100.0, width=80):
    view, _ = piped()
    for event in events:
        view.follow(event, 100.0)
    return show(view.render(now), width)


def lines_of(*events):
    view, _ = piped()
    return [line for event in events for line in view.lines(event)]


def test_the_view_says_which_run_where_it_is_and_what_is_left():
    text = seen(READY, ENDED, STARTED, PROGRESS)
    assert "run 3 of 8, with the stack" in text
    assert "2 of 5" in text
    assert "900 of 1,875" in text
    assert "loss 0.3100, val_accuracy 0.8900" in text
    assert "1.24x so far, about 3 min left" in text


def test_the_time_left_runs_down_between_events():
    assert "about 50 s left" in seen(ENDED, STARTED, now=250.0)
    assert "nearly done" in seen(ENDED, STARTED, now=1000.0)
    ready = planned(group_seconds=75.0 / 4)
    assert "about 65 s left" in seen(ready, STARTED, now=110.0)
    assert "preparing" in seen()
    assert "replaying" in seen(Certifying())
    assert "starting the first run" in seen(READY)


@given(st.lists(st.sampled_from(EVENTS)), st.integers(20, 120))
@few_examples(60)
def test_any_events_in_any_order_can_be_shown(events, width):
    assert max(map(len, seen(*events, width=width).splitlines())) <= width
    view, stream = piped(width)
    for event in events:
        view(event)
    assert "\x1b" not in stream.getvalue()


def test_the_view_is_gone_afterwards_and_the_cursor_back():
    stream = Terminal()
    with MeasurementView(terminal(stream)) as view:
        for event in EVENTS:
            view(event)
    assert stream.getvalue().rstrip().endswith(("\x1b[2K", "\x1b[1A\x1b[2K"))
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_the_view_ends_when_the_measurement_raises():
    stream = Terminal()

    def interrupted():
        with MeasurementView(terminal(stream)) as view:
            view(STARTED)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "\x1b[?25h" in stream.getvalue()
    for thread in threading.enumerate():
        if type(thread).__name__ == "_RefreshThread":
            thread.join(timeout=60)
            assert not thread.is_alive()


def test_events_do_not_redraw():
    stream = Terminal()
    with MeasurementView(terminal(stream)) as view:
        drawn = stream.getvalue()
        for _ in range(1000):
            view(PROGRESS)
        assert stream.getvalue() == drawn


def test_plain_lines_tell_each_run_once_and_no_progress():
    view, stream = piped(20)
    view(ENDED)
    assert stream.getvalue().count("\n") == 1  # not wrapped
    note = Noted("round 2 is \x1brepeated")
    assert lines_of(note, READY, STARTED, PROGRESS, ENDED, FAILED) == [
        "round 2 is \\x1brepeated",
        "prepared in 4.20 s: 8 runs in 4 pairs, each 5 epochs of 1,875 steps",
        "warning: no validation data\\x1b[31m",
        "run 3 of 8, with the stack: 1 min 39 s, val_accuracy 0.9012, 1.24x so far, "
        "about 3 min left",
        "run 4 of 8, without [/red]: failed: killed\\nby SIGKILL",
    ]


def test_only_a_terminal_is_redrawn_and_quiet_prints_nothing():
    assert MeasurementView(terminal(Terminal())).live is not None
    assert MeasurementView(terminal(Terminal(), TERM="dumb")).live is None
    assert MeasurementView(terminal(io.StringIO())).live is None
    log = terminal(io.StringIO(), FORCE_COLOR="1")  # of a CI service
    assert log.is_terminal
    assert MeasurementView(log).live is None
    stream = Terminal()
    quiet = make_console(quiet=True, file=stream, environ={"TERM": "xterm"})
    with MeasurementView(quiet) as view:
        view(READY)
    assert stream.getvalue() == ""


def test_how_long_it_will_take_is_said_before_the_first_run():
    said = lines_of(planned(group_seconds=50.0))
    assert "that takes about 3 min" in said
    said = lines_of(planned(warm_seconds=5.0))
    assert "each for 5 s after its start, of 5 epochs of 1,875 steps" in said[0]
    assert "resumed: 3 runs are there already" in lines_of(attrs.evolve(READY, runs_done=3))


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


def test_piped_there_is_one_line_a_phase_and_a_trial():
    stream = io.StringIO()
    with show_search(make_console(file=stream, environ={})) as observer:
        observer("trying xla, 1 min left to search")
        observer(make_trial("xla", TrialOutcome.IN))
    first, second = stream.getvalue().splitlines()
    assert first == "trying xla, 1 min left to search"
    assert second == "with xla: 1.30x (80% interval 1.20 to 1.41, 2 pairs), in"
