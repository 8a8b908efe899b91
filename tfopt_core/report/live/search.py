"""Show a search as it runs: the trials so far with their intervals, or a line for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Self

import attrs
from rich.console import Console, Group, RenderableType
from rich.live import Live

from tfopt_core.report.live.display import (
    REDRAWS_PER_SECOND,
    LiveObserver,
    Silence,
    fitting_observer,
)
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import Page, indented, words
from tfopt_core.report.style.trials import (
    OUTCOME_COLORS,
    settings_figure,
    trial_in_words,
    values_in_words,
)
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.tuning.contrast import Contrasted
from tfopt_core.tuning.progress import (
    BoundsFound,
    SearchEvent,
    SearchPhase,
    SettingsTrialEnded,
    TrialBegun,
    TrialEnded,
)
from tfopt_core.tuning.results import StackTrial


def make_search_observer(console: Console, quiet: bool = False) -> LiveObserver[SearchEvent]:
    """Return the live view of a search, plain lines, or no output."""
    return fitting_observer(console, quiet, SearchView, search_lines)


class SearchView(Silence):
    """Show a few lines that are redrawn once a second; lines of finished trials stay."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._state = SearchState()
        self._live: Live | None = None

    def __call__(self, event: SearchEvent) -> None:
        self._state = after_search_event(self._state, event, self._clock())
        if isinstance(event, TrialEnded):
            color = OUTCOME_COLORS[event.trial.outcome]
            self._console.print(words(trial_in_words(event.trial), color))
        if isinstance(event, SettingsTrialEnded):
            color = OUTCOME_COLORS[event.trial.outcome]
            self._console.print(words(settings_trial_in_words(event), color))
        if isinstance(event, SearchPhase) and event.measurement:
            self._stop()

    def __enter__(self) -> Self:
        self._live = Live(
            console=self._console, get_renderable=self.render,
            refresh_per_second=REDRAWS_PER_SECOND, transient=True, redirect_stdout=False,
        )  # fmt: skip
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> RenderableType:
        """Return what is shown now."""
        return render_search(self._state, self._clock())


@attrs.frozen(kw_only=True)
class SearchState:
    """What the events have reported so far; `ends_at` in seconds of the view's clock."""

    phase: str = "reading the installed plugins"
    bound: str = ""
    waiting: int = 0
    proving: bool = False
    trial: StackTrial | None = None
    pair: Contrasted | None = None
    tried: int = 0
    ends_at: float | None = None


def after_search_event(state: SearchState, event: SearchEvent, now: float) -> SearchState:
    """Return the state after an event.

    :param now: seconds of a monotonic clock.
    """
    match event:
        case SearchPhase():
            state = attrs.evolve(state, phase=event.text, trial=None)
            if event.seconds_left is None:
                return state
            return attrs.evolve(state, proving=True, ends_at=now + event.seconds_left)
        case BoundsFound():
            return attrs.evolve(state, bound=event.bound.sentence, waiting=event.candidates)
        case TrialBegun():
            return attrs.evolve(
                state, trial=event.trial, pair=None, ends_at=now + event.seconds_left
            )
        case Contrasted():
            return attrs.evolve(state, pair=event)
        case TrialEnded() | SettingsTrialEnded():
            return attrs.evolve(
                state, trial=None, pair=None, tried=state.tried + 1, phase="choosing the next",
                ends_at=now + event.seconds_left,
            )  # fmt: skip


def render_search(state: SearchState, now: float) -> RenderableType:
    """Return the live view, as a pure function of the state and the time."""
    parts: list[RenderableType] = []
    if state.bound:
        parts.append(words(f"now: {state.bound}", "dim"))
    trial = state.trial
    if trial is None:
        parts.append(words(state.phase, "dim"))
    else:
        verb = "taking out" if trial.action == "drop" else "trying"
        others = ", ".join(one.name for one in trial.stack if one.name not in trial.plugins)
        on = f" beside {others}" if others else ""
        parts.append(words(f"{verb} {' + '.join(trial.plugins)}{on}", "bold"))
        if state.pair is not None:
            parts.append(indented(words(f"{_pair(state.pair)} so far")))
    overall = f"{state.tried} {'trial' if state.tried == 1 else 'trials'}"
    if state.ends_at is not None:
        left = round(state.ends_at - now)
        what = "left" if state.proving else "left to search"
        overall += f", {seconds_in_words(left)} {what}" if left > 0 else ", nearly done"
    parts.append(words(overall, "dim"))
    return Page((Group(*parts),))


def search_lines(event: SearchEvent) -> Iterator[str]:
    """Yield the lines to print for an event: what bounds a step, and one line a trial."""
    match event:
        case SearchPhase(minor=False):
            yield plain(event.text)
        case BoundsFound():
            on = f"with {', '.join(event.bound.stack)}: " if event.bound.stack else ""
            yield plain(f"{on}{event.bound.sentence}")
            yield f"{event.candidates} plugins to try, {len(event.not_tried)} left out"
        case TrialEnded():
            left = seconds_in_words(event.seconds_left)
            yield plain(f"{trial_in_words(event.trial)}; {left} left to search")
        case SettingsTrialEnded():
            left = seconds_in_words(event.seconds_left)
            yield plain(f"{settings_trial_in_words(event)}; {left} left to search")


def settings_trial_in_words(event: SettingsTrialEnded) -> str:
    """Return a trial of settings as one line: its place, its values, its figure, its outcome."""
    trial = event.trial
    outcome = f"{trial.outcome}: {trial.reason}" if trial.reason else str(trial.outcome)
    figure = settings_figure(trial)
    place = f"trial {event.number} of {event.planned}"
    return f"{place}, {values_in_words(trial.values)}: {figure or outcome}"


def _pair(pair: Contrasted) -> str:
    if pair.low is None or pair.high is None:
        return f"{units.ratio_text(pair.ratio)} in 1 pair"
    figures = units.ratio_with_interval(pair.ratio, pair.low, pair.high)
    return f"{figures} in {pair.pairs} pairs"
