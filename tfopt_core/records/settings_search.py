"""The search of settings and options as plain data: its trials, the best values, their proof."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs

from tfopt_core.recipe.paths import split_path

Values = Mapping[str, Any]


class SettingsOutcome(StrEnum):
    """What became of a trial of settings. The value is the word in JSON and in the study."""

    MEASURED = "measured"
    # its training was ended, since it learned worse than others after as many epochs
    PRUNED = "pruned"
    # it trained, and not to the target, or to no epoch's end in time
    MISSED = "missed"
    NOT_APPLIED = "not applied"
    REFUSED = "refused"
    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"


@attrs.frozen(kw_only=True)
class SettingsTrial:
    """One trial: the training with `values`, by their keys ("options.units").

    `figure` is what is searched for, larger is better: the untuned training's seconds (or peak
    memory) over its own, from one pair of runs with the same seed; for quality the metric after the
    untuned training's time, its sign changed where lower is better. None unless it was measured.
    `quality` is that metric as it is, and `epochs` that of each epoch. The trial of the untuned
    training itself, which "quality" begins with, has no `values` and knows the time that all
    others have, `allowed_seconds`. `kept_from` names the search that this was made in, "" for this
    one, and `machine` the machine that shared it through a storage, "" for this one.
    """

    values: Values
    outcome: SettingsOutcome
    reason: str = ""
    figure: float | None = None
    quality: float | None = None
    epochs: tuple[float, ...] = ()
    allowed_seconds: float | None = None
    run_seconds: float | None = None
    seconds: float = 0.0
    kept_from: str = ""
    machine: str = ""


@attrs.frozen(kw_only=True)
class EarnedValue:
    """What a value of the best trial earned: pairs of the best values with and without it.

    `untuned` is the value that it replaces, None for the workload's own. `figure` is the ratio or
    the difference in quality with it, the mean of `pairs`; it chooses, and is no gain. Without
    `stays` the untuned value is back.
    """

    key: str
    value: Any
    untuned: Any
    stays: bool
    reason: str
    figure: float | None = None
    pairs: int = 0
    seconds: float = 0.0


@attrs.frozen(kw_only=True)
class ProofPair:
    """A fresh pair: its seed, and the figure of the untuned and the tuned training. Seconds to the
    target; or the metric at equal time. None where a training failed or did not get there."""

    seed: int
    untuned: float | None = None
    tuned: float | None = None
    failure: str = ""


@attrs.frozen(kw_only=True)
class SettingsProof:
    """The fresh pairs of the best values on the validation data, which the search never read.

    `figure` with [low, high] at `confidence` is the ratio of the seconds to the target (above 1 is
    sooner), or the difference of the metric at equal time (above 0 is better). It is `confirmed`
    where that interval excludes no gain.
    """

    confirmed: bool
    statement: str
    pairs: tuple[ProofPair, ...]
    figure: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    seconds: float = 0.0
    interrupted: bool = False


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


@attrs.frozen(kw_only=True)
class SettingsSearch:
    """A search of settings and options.

    `ranges` and `untuned` hold what is searched, by key: "plugins.l2.strength" of a plugin in the
    stack, "options.units" of the workload. `metric` steers the pruning, and for quality the search.
    `best` are the values that it ends with and that differ from the untuned ones; `earned` is what
    each of them showed. `proof` is None where the values were proved with the whole stack, or not
    at all, and `shared` where this machine searched alone.
    """

    sampler: str
    pruner: str
    planned: int
    metric: str = ""
    ranges: Mapping[str, Any] = attrs.field(factory=dict)
    untuned: Mapping[str, Any] = attrs.field(factory=dict)
    trials: tuple[SettingsTrial, ...] = ()
    best: Values = attrs.field(factory=dict)
    earned: tuple[EarnedValue, ...] = ()
    proof: SettingsProof | None = None
    statement: str = ""
    seconds: float = 0.0
    shared: SharedSearch | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The best options of the workload, by their names."""
        paths = ((split_path(key), value) for key, value in self.best.items())
        return {str(path[1]): value for path, value in paths if path[0] == "options"}
