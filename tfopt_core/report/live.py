"""Show a measurement as it runs: redrawn lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from tfopt_core.measurement.progress import (
    Certifying,
    Event,
    Noted,
    Preparing,
    Ready,
    RunEnded,
    RunProgress,
    RunStarted,
)
from tfopt_core.report.style import units
from tfopt_core.report.style.console import can_redraw, plain
from tfopt_core.report.style.layout import Items, Page, grid, indented, words
from tfopt_core.report.style.vocabulary import variant_in_words
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.statistics.runs import RunResult

# Nothing else runs beside a run (docs/guide/measuring.md, "The steps"), so redraw seldom.
REDRAWS_PER_SECOND = 1
BAR_WIDTH = 32
PREPARING = "preparing: building the model and resolving the settings"
CERTIFYING = "replaying a short training without and with the stack"


def live_lines(console: Console, render: Callable[[], RenderableType]) -> Live:
    """Return lines that one thread of rich redraws, and that are removed at the end."""
    return Live(
        console=console, get_renderable=render, refresh_per_second=REDRAWS_PER_SECOND,
        transient=True, redirect_stdout=False,
    )  # fmt: skip


class MeasurementView:
    """An observer that is entered before a measurement, and exited after it.

    On a terminal it shows a few lines that are redrawn once a second: an event only changes the
    attributes that they are made of, so that many events cost little. Elsewhere it prints a line
    for each event that matters.

    :param console: of standard error; standard output is for results.
    """

    def __init__(self, console: Console) -> None:
        self._reset()  # rich renders once as soon as there is a view
        self.console = console
        self.live: Live | None = None
        if can_redraw(console):
            self.live = live_lines(console, lambda: self.render(time.monotonic()))

    def __call__(self, event: Event) -> None:
        """Show an event. Events may come in any order, also before the view is entered."""
        if self.live is None:
            for line in self.lines(event):
                # log lines are not wrapped
                self.console.print(Text(line), soft_wrap=True)
            return
        self.follow(event, time.monotonic())
        if isinstance(event, Ready | Noted):  # these lines stay, above the redrawn ones
            for line in self.lines(event):
                self.console.print(words(line, "dim"))

    def __enter__(self) -> Self:
        if self.live is not None:
            self.live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def _reset(self) -> None:
        self.waiting = PREPARING
        self.run: RunStarted | None = None
        self.progress: RunProgress | None = None
        self.failed = 0
        self.speedup_so_far: float | None = None
        self.ends_at: float | None = None  # by the monotonic clock

    def follow(self, event: Event, now: float) -> None:
        """Take an event into what is shown."""
        match event:
            case Preparing():
                self._reset()
            case Certifying():
                self.waiting = CERTIFYING
            case Ready():
                self.waiting = "starting the first run"
                self._expect(event.estimated_seconds, now)
            case RunStarted():
                self.run, self.progress = event, None
            case RunProgress():
                self.run, self.progress = event.run, event
            case RunEnded():
                self.progress, self.speedup_so_far = None, event.speedup_so_far
                self.failed += event.run.status == "failed"
                self._expect(event.seconds_left, now)

    def _expect(self, seconds: float | None, now: float) -> None:
        self.ends_at = None if seconds is None else now + seconds

    def render(self, now: float) -> RenderableType:
        """Return what is shown now."""
        run, at, overall = self.run, self.progress, self._overall(now)
        if run is None:
            text = f"{self.waiting} ({overall})" if overall else self.waiting
            return Page((words(text, "dim"),))
        rows: list[tuple[RenderableType, ...]] = []
        if at is not None:
            # the event counts epochs from 0, as Keras does
            rows.append(_bar("epoch", min(at.epoch + 1, at.epochs), at.epochs))
            rows.append(_bar("step", at.step, at.steps_per_epoch))
        parts: list[RenderableType] = [words(_which_run(run, run.variant), "bold")]
        parts.append(indented(grid(rows) if rows else words("starting", "dim")))
        if at is not None and at.metrics:
            # validation metrics last
            metrics = sorted(at.metrics.items(), key=lambda item: item[0].startswith("val_"))
            shown = (f"{name} {units.metric_text(value)}" for name, value in metrics)
            parts.append(indented(Items(tuple(shown))))
        if overall:
            parts.append(indented(words(overall, "dim")))
        return Page(tuple(parts))

    def _overall(self, now: float) -> str:
        parts = []
        if self.speedup_so_far is not None:
            parts.append(f"{units.ratio_text(self.speedup_so_far)} so far")
        if self.ends_at is not None:
            left = round(self.ends_at - now)
            parts.append(f"about {seconds_in_words(left)} left" if left > 0 else "nearly done")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return ", ".join(parts)

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines of an event where nothing can be redrawn: none for the start and the
        progress of a run."""
        match event:
            case Preparing():
                yield PREPARING
            case Certifying():
                yield CERTIFYING
            case Noted():
                yield plain(event.text)
            case Ready():
                yield from _ready(event)
                yield from (f"warning: {plain(warning)}" for warning in event.prepared.warnings)
            case RunEnded():
                yield _ended(event)


@contextmanager
def make_phases(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with each phase, while the work goes on.

    :param console: the one of standard error; standard output is for results.
    """
    if not can_redraw(console):
        yield lambda phase: console.print(Text(plain(phase)), soft_wrap=True)
        return
    begun, now = time.monotonic(), [""]

    def line() -> Text:
        return words(f"{now[0]} ({units.seconds_text(round(time.monotonic() - begun))})", "dim")

    with live_lines(console, line):
        yield lambda phase: now.__setitem__(0, phase)


def _bar(name: str, done: int, total: int | None) -> tuple[RenderableType, ...]:
    if not total or total < 0:
        return words(name, "dim"), words(f"{done:,}")
    bar = ProgressBar(total=total, completed=max(0, min(done, total)), width=BAR_WIDTH)
    return words(name, "dim"), bar, words(f"{done:,} of {total:,}")


def _ready(event: Ready) -> Iterator[str]:
    prepared, state, steps = event.prepared, event.state, event.prepared.steps_per_epoch
    epochs = units.counted(prepared.epochs, "epoch") + (f" of {steps:,} steps" if steps else "")
    each = f"each {epochs}"
    if state.warm_seconds is not None:
        each = f"each for {state.warm_seconds:.3g} s after its start, of {epochs}"
    if prepared.own_loop:
        each = "each to the script's end" if steps is None else f"each of {steps:,} updates"
    yield (
        f"prepared in {units.seconds_text(prepared.seconds)}: {event.total_runs} runs in "
        f"{state.pairs} pairs, {each}"
    )
    if event.runs_done:
        yield f"resumed: {event.runs_done} runs are there already"
    elif event.estimated_seconds is not None:
        yield f"that takes about {seconds_in_words(event.estimated_seconds)}"


def _ended(event: RunEnded) -> str:
    run = event.run
    which = plain(_which_run(event, run.variant))
    if not run.ok:
        return f"{which}: {run.status}" + (f": {plain(run.error)}" if run.error else "")
    parts = [
        "" if run.wall_seconds is None else units.seconds_text(run.wall_seconds),
        plain(_validation_in_words(run)),
        "" if event.speedup_so_far is None else f"{units.ratio_text(event.speedup_so_far)} so far",
        "" if not event.seconds_left else f"about {seconds_in_words(event.seconds_left)} left",
    ]
    return f"{which}: " + (", ".join(part for part in parts if part) or "done")


def _which_run(event: RunStarted | RunEnded, variant: str) -> str:
    """Return `run 3 of 8, with the stack`."""
    return f"run {event.index + 1} of {event.total_runs}, {variant_in_words(variant)}"


def _validation_in_words(run: RunResult) -> str:
    """Return the first validation metric that is no loss, else the validation loss, else ""."""
    metrics = run.fit.metrics if run.fits else {}
    losses = ("val_loss", "val_data_loss")
    own = [name for name in metrics if name.startswith("val_") and name not in losses]
    known = [*own, *(loss for loss in losses if loss in metrics)]
    return f"{known[0]} {units.metric_text(metrics[known[0]])}" if known else ""
