"""The result of `tfopt tune` as plain data: what was tried, the winning stack, and its proof."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import attrs

from tfopt_core.recipe.model import TuneObjective
from tfopt_core.records.results import Results
from tfopt_core.records.settings_search import SettingsSearch

SCHEMA_VERSION = 1


class TrialOutcome(StrEnum):
    """What became of a trial. The value is the word in JSON and in the log of a search."""

    # the stack goes on with the plugin
    IN = "in"
    # measured, and not kept
    NO_GAIN = "no gain"
    WORSE = "worse"
    # no contrast was possible
    NOT_APPLIED = "not applied"
    REFUSED = "refused"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    # a plugin of the stack that was taken out again, or that earns its place
    DROPPED = "dropped"
    STAYS = "stays"

    @property
    def measured(self) -> bool:
        """Whether the trial has a ratio, from at least one pair of runs."""
        return self in _MEASURED


_MEASURED = frozenset({
    TrialOutcome.IN, TrialOutcome.NO_GAIN, TrialOutcome.WORSE, TrialOutcome.DROPPED,
    TrialOutcome.STAYS,
})  # fmt: skip

Action = Literal["add", "drop"]
Settings = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class TunedPlugin:
    """A plugin of a stack, with its settings as they were resolved."""

    name: str
    settings: Settings = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class StackTrial:
    """One trial of the search: the stack with a plugin against the stack without it.

    `action` is "add", or "drop" for the trial that asks whether a plugin of the winner earns its
    place. `stack` is the side with the plugin, `without` the other; where the plugin conflicts with
    others, it takes their place, and `replaces` names them. `joined_by` are further plugins
    that the trial adds; the figure is that of all. `left_out` are plugins that it tried and that
    took no effect, with the reason; the stacks do not hold them. `ratio` is the figure without the
    plugin over that with it (above 1: better with it), with its interval [low, high] at
    `confidence` from `pairs` pairs of short runs; None where nothing could be compared. It steers
    the search and is no gain: it is the largest of many. `kept_from` is the search whose trial
    this was, "" for one of this search. `seconds` is what it took, dry build included.
    """

    action: Action
    plugin: str
    stack: tuple[TunedPlugin, ...]
    without: tuple[TunedPlugin, ...]
    replaces: tuple[str, ...] = ()
    joined_by: tuple[str, ...] = ()
    left_out: Mapping[str, str] = attrs.field(factory=dict)
    outcome: TrialOutcome
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    pairs: int = 0
    seconds: float = 0.0
    kept_from: str = ""

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plugins that the trial adds or takes out."""
        return (self.plugin, *self.joined_by)


@attrs.frozen(kw_only=True)
class NotTried:
    """An installed plugin that was not tried, and why."""

    plugin: str
    reason: str


@attrs.frozen(kw_only=True)
class BoundStep:
    """What bounded a step of a stack when the search looked: a sentence, and the share of each
    part. `stack` are the names of its plugins, () for the baseline."""

    stack: tuple[str, ...]
    sentence: str
    shares: Mapping[str, float]


@attrs.frozen(kw_only=True)
class TuneResult:
    """A whole search, as `tfopt tune --json` writes it.

    `stack` is the best that the search found, with the best `settings` if those were searched;
    changed options of the workload stand in `settings`, with a proof of their own. `proof` is the
    measurement of the stack by fresh pairs, from which alone a gain is printed: None if nothing was
    found, or the search was interrupted before.
    `search_seconds` is what the search took, without the fresh pairs, and `proof_seconds` what
    those took. `written` is the recipe's file, "" if none was written, with the reason in
    `why_not_written`. `begun_from` are the earlier searches whose trials were kept, and `resumed`
    how often this one was. `why_ended` says why it ended before all was tried.
    """

    schema_version: int = SCHEMA_VERSION
    id: str
    recipe: str
    workload: str
    baseline: str = ""
    objective: TuneObjective = "time"
    budget_seconds: float
    machine: Mapping[str, Any]
    bounds: tuple[BoundStep, ...] = ()
    trials: tuple[StackTrial, ...] = ()
    not_tried: tuple[NotTried, ...] = ()
    stack: tuple[TunedPlugin, ...] = ()
    settings: SettingsSearch | None = None
    proof: Results | None = None
    search_seconds: float = 0.0
    proof_seconds: float = 0.0
    statement: str = ""
    written: str = ""
    why_not_written: str = ""
    begun_from: tuple[str, ...] = ()
    resumed: int = 0
    interrupted: bool = False
    why_ended: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def tuned_options(self) -> dict[str, Any]:
        """The options of the workload that the search has changed, by their names."""
        return {} if self.settings is None else self.settings.options
