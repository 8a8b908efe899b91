"""Show a measurement as it runs: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from tfopt_core.measurement.progress import Certifying, Event, Noted, Preparing, Ready, RunEnded
from tfopt_core.report.live.progress import (
    State,
    after,
    metrics_in_words,
    validation_in_words,
    which_run,
)
from tfopt_core.report.style import units
from tfopt_core.report.style.console import can_redraw, plain
from tfopt_core.report.style.layout import Items, Page, grid, indented, words
from tfopt_core.statistics.intervals import seconds_in_words

# Nothing else runs beside a run (docs/guide/measuring.md, "The steps"), so redraw seldom.
REDRAWS_PER_SECOND = 1
BAR_WIDTH = 32
PREPARING = "preparing: building the model and resolving the settings"
CERTIFYING = "replaying a short training without and with the stack"

AnyEvent = TypeVar("AnyEvent", contravariant=True)


class LiveObserver(Protocol[AnyEvent]):
    """An observer that is entered before the measurement or search, and exited after it."""

    def __call__(self, event: AnyEvent) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def make_observer(console: Console, quiet: bool = False) -> LiveObserver[Event]:
    """Return the live view of a measurement, plain lines, or no output."""
    return fitting_observer(console, quiet, LiveView, lines_of)


def fitting_observer(
    console: Console,
    quiet: bool,
    view: Callable[[Console], LiveObserver[AnyEvent]],
    lines_of: Callable[[AnyEvent], Iterable[str]],
) -> LiveObserver[AnyEvent]:
    """Return the live view, plain lines if the terminal cannot redraw, or no output.

    :param console: of standard error; standard output is for results.
    """
    if quiet:
        return Silence()
    if can_redraw(console):
        return view(console)
    return PlainLines(console, lines_of)


class Silence:
    """An observer that prints nothing."""

    def __call__(self, event: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class PlainLines(Silence):
    """Print one line for each event that matters, without progress."""

    def __init__(self, console: Console, lines_of: Callable[[Any], Iterable[str]]) -> None:
        self._console, self._lines_of = console, lines_of

    def __call__(self, event: Any) -> None:
        for line in self._lines_of(event):
            # log lines are not wrapped
            self._console.print(Text(line), soft_wrap=True)


class LiveView(Silence):
    """Show a few lines that are redrawn once a second and removed at the end.

    Events only change the state; one thread of rich redraws, so that many events cost little.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state = State()
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=REDRAWS_PER_SECOND,
            transient=True,
            redirect_stdout=False,
        )

    def __call__(self, event: Event) -> None:
        self._state = after(self._state, event, self._clock())
        if isinstance(event, Ready | Noted):
            # these lines stay on screen, above the redrawn ones
            for line in lines_of(event):
                self._live.console.print(words(line, "dim"))

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        """Return what is shown now."""
        return render_state(self._state, self._clock())


def lines_of(event: Event) -> Iterator[str]:
    """Yield the lines to print for an event; none for the start and the progress of a run."""
    match event:
        case Preparing():
            yield PREPARING
        case Certifying():
            yield CERTIFYING
        case Noted():
            yield plain(event.text)
        case Ready():
            yield from _ready(event)
            yield from (f"warning: {plain(warning)}" for warning in event.warnings)
        case RunEnded():
            yield _ended(event)


def _ready(event: Ready) -> Iterator[str]:
    steps = f" of {event.steps_per_epoch:,} steps" if event.steps_per_epoch else ""
    epochs = f"{event.epochs:,} {'epoch' if event.epochs == 1 else 'epochs'}"
    each = f"each {epochs}{steps}"
    if event.warm_seconds is not None:
        each = f"each for {event.warm_seconds:.3g} s behind its start, of {epochs}{steps}"
    if event.own_loop:
        count = event.steps_per_epoch
        each = "each to the script's end" if count is None else f"each of {count:,} updates"
    yield (
        f"prepared in {units.seconds_text(event.seconds)}: {event.total_runs} runs in "
        f"{event.pairs} pairs, {each}"
    )
    if event.runs_done:
        yield f"resumed: {event.runs_done} runs are there already"
    elif event.estimated_seconds is not None:
        yield f"that takes about {seconds_in_words(event.estimated_seconds)}"


def _ended(event: RunEnded) -> str:
    run = event.run
    which = plain(which_run(event.index, event.total_runs, run.variant))
    if not run.ok:
        return f"{which}: {run.status}" + (f": {plain(run.error)}" if run.error else "")
    parts = [
        "" if run.wall_seconds is None else units.seconds_text(run.wall_seconds),
        plain(validation_in_words(run)),
        "" if event.speedup_so_far is None else f"{units.ratio_text(event.speedup_so_far)} so far",
        "" if not event.seconds_left else f"about {seconds_in_words(event.seconds_left)} left",
    ]
    return f"{which}: " + (", ".join(part for part in parts if part) or "done")


def render_state(state: State, now: float) -> RenderableType:
    """Return the live view, as a pure function of the state and the time."""
    if state.run is None:
        text = CERTIFYING if state.certifying else PREPARING
        text = text if state.ready is None else "starting the first run"
        overall = _overall(state, now)
        return Page((words(f"{text} ({overall})" if overall else text, "dim"),))
    run, at = state.run, state.progress
    rows: list[tuple[RenderableType, ...]] = []
    if at is not None:
        # the event counts epochs from 0, as Keras does
        rows.append(_bar("epoch", min(at.epoch + 1, at.epochs), at.epochs))
        rows.append(_bar("step", at.step, at.steps_per_epoch))
    parts: list[RenderableType] = [words(which_run(run.index, run.total_runs, run.variant), "bold")]
    parts.append(indented(grid(rows) if rows else words("starting", "dim")))
    if at is not None and at.metrics:
        parts.append(indented(Items(metrics_in_words(at.metrics))))
    if overall := _overall(state, now):
        parts.append(indented(words(overall, "dim")))
    return Page((Group(*parts),))


def _bar(name: str, done: int, total: int | None) -> tuple[RenderableType, ...]:
    if not total or total < 0:
        return words(name, "dim"), words(f"{done:,}")
    bar = ProgressBar(total=total, completed=max(0, min(done, total)), width=BAR_WIDTH)
    return words(name, "dim"), bar, words(f"{done:,} of {total:,}")


def _overall(state: State, now: float) -> str:
    parts = []
    if state.speedup_so_far is not None:
        parts.append(f"{units.ratio_text(state.speedup_so_far)} so far")
    if state.ends_at is not None:
        left = round(state.ends_at - now)
        parts.append(f"about {seconds_in_words(left)} left" if left > 0 else "nearly done")
    if state.failed:
        parts.append(f"{state.failed} failed")
    return ", ".join(parts)


@contextmanager
def make_phases(
    console: Console,
    quiet: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with each phase, while the work goes on.

    :param console: the one of standard error; standard output is for results.
    """
    if quiet:
        yield lambda phase: None
        return
    if not can_redraw(console):
        yield lambda phase: console.print(Text(plain(phase)), soft_wrap=True)
        return
    begun, now = clock(), [""]

    def line() -> Text:
        return words(f"{now[0]} ({units.seconds_text(round(clock() - begun))})", "dim")

    with Live(
        console=console, get_renderable=line, refresh_per_second=REDRAWS_PER_SECOND,
        transient=True, redirect_stdout=False,
    ):  # fmt: skip
        yield lambda phase: now.__setitem__(0, phase)
