"""The progress events of a search, as frozen data."""

from __future__ import annotations

from typing import Protocol

import attrs

from tfopt_core.tuning.contrast import Contrasted
from tfopt_core.tuning.results import BoundStep, NotTried, SettingsTrial, StackTrial


@attrs.frozen
class SearchPhase:
    """A part of the search begins that is no trial, such as a diagnosis; `text` says which. A
    `minor` one is a part of that. A `measurement` shows itself. `seconds_left` is how long fresh
    pairs of values will take, None for another part."""

    text: str
    minor: bool = False
    measurement: bool = False
    seconds_left: float | None = None


@attrs.frozen
class BoundsFound:
    """What bounds a step of the best stack so far, and how many plugins are to be tried on it."""

    bound: BoundStep
    candidates: int
    not_tried: tuple[NotTried, ...] = ()


@attrs.frozen
class TrialBegun:
    """A planned trial begins; `seconds_left` is what is left of the search's part of the budget."""

    trial: StackTrial
    seconds_left: float


@attrs.frozen
class TrialEnded:
    """A trial is over, and kept in the log."""

    trial: StackTrial
    seconds_left: float


@attrs.frozen(kw_only=True)
class SettingsTrialEnded:
    """A trial of settings is over, and kept: the `number`th of `planned`."""

    trial: SettingsTrial
    number: int
    planned: int
    seconds_left: float


# `Contrasted` after each pair of runs of a trial
SearchEvent = (
    SearchPhase | BoundsFound | TrialBegun | Contrasted | TrialEnded | SettingsTrialEnded
)  # fmt: skip


class SearchObserver(Protocol):
    """Anything that takes events of a search: the live view, plain lines, a list in a test."""

    def __call__(self, event: SearchEvent) -> None: ...
