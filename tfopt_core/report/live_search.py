"""The view of a search as it runs: the trials so far with their intervals."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from tfopt_core.report.live import EventView
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import Page, indented, words
from tfopt_core.report.style.vocabulary import (
    color_of,
    others_of,
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


class SearchView(EventView[SearchEvent]):
    """The view of a search; lines of finished trials stay. `ends_at` is the expected end in seconds
    of the monotonic clock, of the search or, if it is `proving`, of the fresh pairs."""

    def __init__(self, console: Console) -> None:
        self.phase = "reading the installed plugins"
        self.bound = ""
        self.proving = False
        self.trial: StackTrial | None = None
        self.pair: Contrasted | None = None
        self.tried = 0
        self.ends_at: float | None = None
        super().__init__(console)  # renders once

    def follow(self, event: SearchEvent, now: float) -> None:
        """See `EventView`."""
        match event:
            case SearchPhase():
                self.phase, self.trial = event.text, None
                if event.seconds_left is not None:
                    self.proving, self.ends_at = True, now + event.seconds_left
                if event.measurement and self.live is not None:
                    self.live.stop()  # it has a view of its own
            case BoundsFound():
                self.bound = event.bound.sentence
            case TrialBegun():
                self.trial, self.pair = event.trial, None
                self.ends_at = now + event.seconds_left
            case Contrasted():
                self.pair = event
            case TrialEnded() | SettingsTrialEnded():
                self.trial, self.phase = None, "choosing the next"
                self.tried += 1
                self.ends_at = now + event.seconds_left

    def render(self, now: float) -> RenderableType:
        """See `EventView`."""
        parts: list[RenderableType] = []
        if self.bound:
            parts.append(words(f"now: {self.bound}", "dim"))
        trial, pair = self.trial, self.pair
        if trial is None:
            parts.append(words(self.phase, "dim"))
        else:
            verb = "taking out" if trial.action == "drop" else "trying"
            on = f" beside {', '.join(others)}" if (others := others_of(trial)) else ""
            parts.append(words(f"{verb} {' + '.join(trial.plugins)}{on}", "bold"))
            if pair is not None:
                parts.append(indented(words(f"{_pair(pair)} so far")))
        overall = units.counted(self.tried, "trial")
        if self.ends_at is not None:
            left = round(self.ends_at - now)
            what = "left" if self.proving else "left to search"
            overall += f", {seconds_in_words(left)} {what}" if left > 0 else ", nearly done"
        return Page((*parts, words(overall, "dim")))

    def lines(self, event: SearchEvent) -> Iterator[str]:
        """Yield what bounds a step, and one line a trial."""
        match event:
            case SearchPhase(minor=False):
                yield plain(event.text)
            case BoundsFound():
                on = f"with {', '.join(event.bound.stack)}: " if event.bound.stack else ""
                yield plain(f"{on}{event.bound.sentence}")
                yield f"{event.candidates} plugins to try, {len(event.not_tried)} left out"
            case TrialEnded() | SettingsTrialEnded():
                left = seconds_in_words(event.seconds_left)
                yield plain(f"{_ended_trial(event)}; {left} left to search")

    def kept(self, event: SearchEvent) -> Iterator[Text]:
        """See `EventView`."""
        if isinstance(event, TrialEnded | SettingsTrialEnded):
            yield words(_ended_trial(event), color_of(event.trial.outcome))


def _ended_trial(event: TrialEnded | SettingsTrialEnded) -> str:
    """Return a trial as one line; one of settings with its place, its values and its figure."""
    if isinstance(event, TrialEnded):
        return trial_in_words(event.trial)
    trial = event.trial
    outcome = f"{trial.outcome}: {trial.reason}" if trial.reason else str(trial.outcome)
    place = f"trial {event.number} of {event.planned}"
    return f"{place}, {values_in_words(trial.values)}: {settings_figure(trial) or outcome}"


def _pair(pair: Contrasted) -> str:
    if pair.low is None or pair.high is None:
        return f"{units.ratio_text(pair.ratio)} in 1 pair"
    figures = units.ratio_with_interval(pair.ratio, pair.low, pair.high)
    return f"{figures} in {pair.pairs} pairs"
