"""The result of `tfopt tune` as plain data: what was tried, the best stack and settings, and their
proof."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import attrs

from tfopt_core.recipe.model import Objective
from tfopt_core.recipe.tree import split_path
from tfopt_core.statistics.results import Results

SCHEMA_VERSION = 1

Values = Mapping[str, Any]


def values_below(values: Values, *path: str) -> dict[str, Any]:
    """Return the values whose keys lie below a path such as ("options",), by their names."""
    split = ((split_path(key), value) for key, value in values.items())
    return {str(parts[-1]): value for parts, value in split if parts[:-1] == path}


class TrialOutcome(StrEnum):
    """What became of a trial. The value is the word in JSON, in a log and in a study."""

    # of a stack that goes on with the plugin; measured, and not kept
    IN = "in"
    NO_GAIN = "no gain"
    WORSE = "worse"
    # of a plugin of the stack that was taken out again, or that earns its place
    DROPPED = "dropped"
    STAYS = "stays"
    # of values of settings and options
    MEASURED = "measured"
    # the training was ended, since it learned worse than others after as many epochs
    PRUNED = "pruned"
    # it trained, and not to the target
    MISSED = "missed"
    # nothing could be compared
    NOT_APPLIED = "not applied"
    REFUSED = "refused"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"

    @property
    def measured(self) -> bool:
        """Whether the trial has a figure."""
        return self in tuple(TrialOutcome)[:6]

    @property
    def is_lasting(self) -> bool:
        """Whether another search may take it over: a failure may have been the machine's."""
        return self not in (TrialOutcome.FAILED, TrialOutcome.OUT_OF_MEMORY)


@attrs.frozen(kw_only=True)
class SettingsTrial:
    """One trial of settings and options: the training with `values`, by their keys
    ("options.units"), against the untuned one.

    `figure` is the untuned training's seconds (or peak memory) over its own, from one pair of runs
    with the same seed; None unless it was measured. It chooses, and is no gain. `kept_from` names
    the search that this was made in, "" for this one, and `machine` the machine that shared it
    through a storage, "" for this one.
    """

    values: Values
    outcome: TrialOutcome
    reason: str = ""
    figure: float | None = None
    seconds: float = 0.0
    kept_from: str = ""
    machine: str = ""


@attrs.frozen(kw_only=True)
class SharedSearch:
    """What several machines have done together of one search of settings.

    :param storage: where it is kept, without a password.
    :param study: its name there; equal names mean the same workload, objective and ranges.
    :param made: how many trials each machine has ended, those of this one as "".
    :param under_way: how many trials others had begun when this search ended.
    """

    storage: str
    study: str
    made: Mapping[str, int]
    under_way: int


@attrs.define(kw_only=True)
class SettingsSearch:
    """A search of settings and options.

    `ranges` and `untuned` hold what is searched, by key: "plugins.l2.strength" of a plugin in the
    stack, "options.units" of the workload. `metric` steers the pruning. `best` are the values that
    it ends with and that differ from the untuned ones. `shared` is None where this machine
    searched alone.
    """

    sampler: str
    pruner: str
    planned: int
    metric: str = ""
    ranges: Mapping[str, Any] = attrs.field(factory=dict)
    untuned: Mapping[str, Any] = attrs.field(factory=dict)
    trials: list[SettingsTrial] = attrs.field(factory=list)
    best: Values = attrs.field(factory=dict)
    statement: str = ""
    seconds: float = 0.0
    shared: SharedSearch | None = None


@attrs.frozen(kw_only=True)
class TunedPlugin:
    """A plugin of a stack, with its settings as they were resolved."""

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)


Stack = tuple[TunedPlugin, ...]


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

    action: Literal["add", "drop"]
    plugin: str
    stack: Stack
    without: Stack
    replaces: tuple[str, ...] = ()
    joined_by: tuple[str, ...] = ()
    left_out: Mapping[str, str] = attrs.field(factory=dict)
    outcome: TrialOutcome = TrialOutcome.FAILED
    reason: str = ""
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

    @property
    def beside(self) -> tuple[str, ...]:
        """The other plugins of the stack."""
        return tuple(one.name for one in self.stack if one.name not in self.plugins)

    @property
    def in_words(self) -> str:
        """What was tried on what, the figure, and the outcome, with its reason where there is no
        figure."""
        words = f"{'without' if self.action == 'drop' else 'with'} {' + '.join(self.plugins)}"
        words += f" beside {', '.join(self.beside)}" if self.beside else ""
        words += f" in place of {', '.join(self.replaces)}" if self.replaces else ""
        if self.ratio is None:
            return f"{words}: {self.outcome}: {self.reason}"
        known = "1 pair"
        if self.low is not None and self.high is not None and self.confidence is not None:
            known = f"{self.confidence:.0%} interval {self.low:.2f} to {self.high:.2f}"
            known += f", {self.pairs} pairs"
        return f"{words}: {self.ratio:.2f}x ({known}), {self.outcome}"


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


@attrs.define(kw_only=True)
class TuneResult:
    """A whole search, filled in as it goes, as `tfopt tune --json` writes it.

    `stack` is the best that the search found, with the best `settings` if those were searched;
    changed options of the workload stand in `settings`.
    `proof` is the measurement of stack and options by fresh pairs, from which alone a gain is
    printed: None if nothing was found, or the search was interrupted before.
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
    objective: Objective = "time"
    budget_seconds: float
    machine: Mapping[str, Any]
    bounds: list[BoundStep] = attrs.field(factory=list)
    trials: list[StackTrial] = attrs.field(factory=list)
    not_tried: tuple[NotTried, ...] = ()
    stack: Stack = ()
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
    warnings: list[str] = attrs.field(factory=list)

    @property
    def has_winner(self) -> bool:
        """Whether a stack or values were found, which a recipe may hold."""
        return bool(self.stack or self.tuned_options)

    @property
    def tuned_options(self) -> dict[str, Any]:
        """The options of the workload that the search has changed, by their names."""
        return {} if self.settings is None else values_below(self.settings.best, "options")
