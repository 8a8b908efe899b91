"""The result of `tfopt diagnose` as plain data: what is printed, and its `--json`."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.hooks.diagnosis import ComputeFloor, StepFacts
from tfopt_core.hooks.installed.suggest import NoAnswer, Suggestion
from tfopt_core.records.estimate import Estimate

SCHEMA_VERSION = 1
# The name of the validation among the parts of an epoch, and of its data.
VALIDATION = "validation"


@attrs.frozen(kw_only=True)
class Round:
    """Seconds of a step in each of the loops, timed one after another.

    `real` is `fit` over the workload's data; `cached` the same over one batch in memory, so
    dispatch and compute; `graph` steps in one graph over that batch, so compute alone, None where
    that cannot be done; `data` a batch read and not used. `peaks` are operations a second of a
    matrix product, by dtype.
    """

    real: float
    cached: float
    graph: float | None
    data: float
    peaks: dict[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class StepPart:
    """The seconds of one part of a step and its share of it, over all rounds. `low` and `high` are
    the least and the largest share in a single round."""

    seconds: float
    share: float
    low: float
    high: float

    @property
    def within_noise(self) -> bool:
        """Whether a round measured none of it."""
        return self.low <= 0


@attrs.frozen(kw_only=True)
class EpochPart:
    """What an epoch takes besides its steps: the validation, or a callback by its class name.
    `seconds` is None where it was not timed, with the reason in `note`. `reading_seconds` are those
    of reading the validation's data alone."""

    name: str
    seconds: float | None = None
    note: str = ""
    reading_seconds: float | None = None


@attrs.frozen(kw_only=True)
class Bounds:
    """The most that a plugin for one part of a step can gain, as a factor; None for no bound.

    `compute` is for one that keeps each value; `compute_rounding` for one that may compute in the
    fastest type. `input_and_dispatch` is for both together: what is left is the model itself.
    """

    input: float | None
    dispatch: float | None
    compute: float | None
    compute_rounding: float | None
    input_and_dispatch: float | None


@attrs.frozen(kw_only=True)
class MatmulUse:
    """How much of the machine's peak in matrix products the model reaches.

    `operations` are those of a step, None where they cannot be counted, for the reason in
    `why_not`. `share_computing` and `share_of_step` are what the model reaches of the peak in the
    type that it computes in (`dtype`), while it computes and over the whole step. `peaks` are
    operations a second by type.
    """

    dtype: str
    operations: float | None
    why_not: str
    share_computing: float | None
    share_of_step: float | None
    peaks: dict[str, float]


@attrs.frozen(kw_only=True)
class Roofline:
    """What bounds the gain of plugins for compute: the least work of a step, and the machine's
    peaks.

    `operations` are those of matrix products and convolutions, `bytes` what must be moved between
    memory and processor. `peaks` are operations a second by type, of which `fastest` is the
    fastest. `floor` is the least time. `uncounted` is what could not be counted, and `why_not` why
    there is no floor at all.
    """

    operations: float = 0.0
    bytes: float = 0.0
    fastest: str = ""
    peaks: dict[str, float] = attrs.field(factory=dict)
    bytes_a_second: float | None = None
    floor: ComputeFloor = attrs.field(factory=ComputeFloor)
    uncounted: tuple[str, ...] = ()
    why_not: str = ""


@attrs.frozen(kw_only=True)
class Diagnosed(StepFacts):
    """Where the time of a training goes on this machine.

    `stack` are the plugins that were in effect, () for the baseline, with `resolved` their
    settings. `suggestions` are sorted by what they can gain; those in `proposed_stack` can be
    stacked together, in that order. `silent` are plugins that gave no answer. `estimate` is
    about what a training takes, in a first look.
    """

    schema_version: int = SCHEMA_VERSION
    recipe: str = ""
    recipe_sha256: str = ""
    workload: str = ""
    baseline: str
    stack: tuple[str, ...]
    resolved: dict[str, dict[str, Any]]
    machine: dict[str, Any]
    environment: dict[str, str] = attrs.field(factory=dict)
    data: dict[str, tuple[str, ...]]
    input: StepPart
    dispatch: StepPart
    compute: StepPart
    bounds: Bounds
    matmul: MatmulUse
    roofline: Roofline = attrs.field(factory=Roofline)
    rounds: tuple[Round, ...]
    epoch_parts: tuple[EpochPart, ...] = ()
    estimate: Estimate | None = None
    suggestions: tuple[Suggestion, ...] = ()
    proposed_stack: tuple[str, ...] = ()
    silent: tuple[NoAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
    measuring_seconds: float
    seconds: float = 0.0
