"""The results of a measurement, as frozen plain data. The field names are those of `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, Self

import attrs

from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.plugin_class import Equivalence
from tfopt_core.hooks.values import Effect
from tfopt_core.recipe.model import Objective
from tfopt_core.statistics.runs import RunResult

SCHEMA_VERSION = 4


class Verdict(StrEnum):
    """The verdict on two stacks. The value is the word in JSON and SQLite.

    `label` is its short form. A `comparable` verdict has a speedup that `tfopt compare` may compare
    with that of another measurement.
    """

    label: str
    comparable: bool

    def __new__(cls, word: str, label: str, comparable: bool = True) -> Self:
        """Return the member for this word."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.label, member.comparable = label, comparable
        return member

    # fmt: off
    FASTER        = "faster",        "faster"
    SLOWER        = "slower",        "slower"
    STEPS_FASTER  = "steps faster",  "steps faster, no total"
    STEPS_SLOWER  = "steps slower",  "steps slower, no total"
    NO_DIFFERENCE = "no difference", "no measurable difference"
    WORSE         = "worse",         "faster but worse"
    QUALITY_OPEN  = "quality open",  "faster, quality not established"
    INCONCLUSIVE  = "inconclusive",  "inconclusive"
    UNLIKE        = "unlike",        "unlike trainings", False
    NOT_APPLIED   = "not applied",   "not applied", False
    SUSPICIOUS    = "suspicious",    "suspiciously identical timings", False
    VOID          = "void",          "void", False
    FITS          = "fits",          "fits, the baseline does not", False
    DOES_NOT_FIT  = "does not fit",  "does not fit into memory", False
    NONE          = "none",          "no verdict", False
    # fmt: on


class MemoryVerdict(StrEnum):
    """What may be said of the peak memory of two stacks; the value as in `Verdict`."""

    LIGHTER = "lighter"
    HEAVIER = "heavier"
    NO_DIFFERENCE = "no difference"
    # Less memory, and another model: as WORSE and QUALITY_OPEN of `Verdict`.
    WORSE = "worse"
    QUALITY_OPEN = "quality open"
    INCONCLUSIVE = "inconclusive"
    NONE = "none"


class QualityVerdict(StrEnum):
    """Whether the full stack's model is as good as the baseline's; the value as in `Verdict`."""

    CERTIFIED = "certified"
    NOT_WORSE = "not worse"
    WORSE = "worse"
    NOT_ESTABLISHED = "not established"


class ComparisonKind(StrEnum):
    """The time that a comparison is about. The value is the word in JSON and SQLite."""

    END_TO_END = "end-to-end"
    # Totals that are projected, and steps alone where no total can be projected.
    STEADY = "steady"
    STEPS = "steps"
    TIME_TO_TARGET = "time-to-target"

    @property
    def qualifier(self) -> str:
        """What follows the verdict in its sentence and says so; empty for whole trainings."""
        return {
            "steady": " (projected)", "steps": " per step", "time-to-target": " to the target",
        }.get(self, "")  # fmt: skip

    @property
    def of_cut_runs(self) -> bool:
        """Whether its runs are cut short, and so say nothing about the quality."""
        return self in (ComparisonKind.STEADY, ComparisonKind.STEPS)


@attrs.frozen(kw_only=True)
class Quality:
    """The quality of the optimized model against the baseline's, in the metric's own unit.

    `difference` is oriented: positive is better. `low` and `high` bound its mean; `resolution`
    is the standard error that the validation set's size allows, None for no share. `certificate`
    is what a replay of fixed batches showed; where it certified the same training, no statistics
    are needed, and where no training was finished the figures are None.
    """

    metric: str
    direction: Literal["max", "min"]
    baseline: float | None = None
    optimized: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float | None = None
    resolution: float | None = None
    certificate: str | None = None
    verdict: QualityVerdict
    statement: str


@attrs.frozen(kw_only=True)
class MemoryContrast:
    """Peak memory of the full stack over that of the baseline: a `ratio` below 1 is less memory.

    `figure` is a field of `RunResult`: "peak_rss_bytes" (resident memory of the run's process) or
    "peak_device_bytes". [low, high] is the interval of the ratio over the pairs.
    """

    figure: str
    verdict: MemoryVerdict
    ratio: float
    low: float
    high: float
    confidence: float
    pairs: int
    statement: str


@attrs.frozen(kw_only=True)
class Comparison:
    """Baseline against the full stack. `speedup` above 1 is faster; its interval is [low, high].

    Where no verdict is possible (too few pairs, nothing applied) the figures are None and the
    statement says why. `memory` is of the process, and then of the device where there is one; empty
    without a verdict. `objective` says which statement is the headline.
    """

    kind: ComparisonKind
    verdict: Verdict
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    pairs: int
    run_ids: tuple[str, ...]
    statement: str
    quality: Quality | None = None
    objective: Objective = "time"
    memory: tuple[MemoryContrast, ...] = ()

    @property
    def judged_memory(self) -> MemoryContrast | None:
        """The contrast of memory that is judged: of the device, where there is one."""
        return self.memory[-1] if self.memory else None

    @property
    def headline_memory(self) -> MemoryContrast | None:
        """That contrast if it is the headline; None if the time is, or there is none."""
        return self.judged_memory if self.objective == "memory" else None

    @property
    def headline_verdict(self) -> Verdict | MemoryVerdict:
        """The verdict that the headline says."""
        memory = self.headline_memory
        return self.verdict if memory is None else memory.verdict

    @property
    def headline(self) -> str:
        """The sentence that is printed first."""
        memory = self.headline_memory
        return self.statement if memory is None else memory.statement


@attrs.frozen(kw_only=True)
class Attribution:
    """The contribution of one plugin, from the contrast of two stacks that differ by it alone.

    `left_out` is a speedup (above 1: the plugin makes it faster) with its interval [low, high]; all
    are None where not measured.
    """

    plugin: str
    left_out: float | None = None
    low: float | None = None
    high: float | None = None
    run_ids: tuple[str, ...]
    statement: str


@attrs.frozen(kw_only=True)
class Addition:
    """The contribution of plugins that are not exact, as a contrast of its own over an exact stack.

    `plugins` are those that the full stack lacks or has with other settings; `resolved` holds the
    settings of the whole second stack, `equivalence` is what it does to the training, `variant`
    the name of its runs. `speedup` is that over the full stack, with its interval [low, high], and
    `total` that over the baseline, with its own; all are None where they were not measured, and
    the statement says why. `quality` is that of its model against the baseline's. No verdict
    depends on it.
    """

    plugins: tuple[str, ...]
    resolved: Mapping[str, Mapping[str, Any]]
    equivalence: Equivalence
    variant: str
    verdict: Verdict = Verdict.NONE
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    pairs: int = 0
    run_ids: tuple[str, ...] = ()
    total: float | None = None
    total_low: float | None = None
    total_high: float | None = None
    quality: Quality | None = None
    statement: str = ""


@attrs.frozen(kw_only=True)
class FigureRatio:
    """A figure of the baseline over that of the full stack: the mean over the pairs, as a factor.

    `figure` is the name of a field of `RunResult` or `FitResult`; [low, high] is the interval of
    the ratio, at the confidence of the comparison.
    """

    figure: str
    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def shown(self) -> bool:
        """Whether the interval excludes no difference."""
        return not self.low <= 1 <= self.high


@attrs.frozen(kw_only=True)
class Results:
    """A whole measurement, as `--json` writes it.

    `resolved` are every plugin's settings without "auto"; `setup_seconds` is what resolving and
    the dry build took, and `seconds` the whole measurement with it; `ratios` are those of further
    figures of the same pairs, on which no verdict depends; `baseline` says what the
    workload trains without a stack; `recipe_toml` is the recipe after `extends` and `--set`; each
    run trained `warm_seconds` after its start, None to its end;
    `resumed` counts how often the measurement was stopped and resumed; `observed` is what each
    observer found in an extra, untimed run.
    `addition` is a second contrast, None where there is none; `findings` are what a first look at a
    script found to change by hand.
    """

    id: str
    recipe: str
    recipe_sha256: str
    resolved: Mapping[str, Mapping[str, Any]]
    machine: Mapping[str, Any]
    environment: Mapping[str, str]
    runs: tuple[RunResult, ...]
    comparison: Comparison
    attribution: tuple[Attribution, ...] = ()
    ratios: tuple[FigureRatio, ...] = ()
    schema_version: int = SCHEMA_VERSION
    created_at: str = ""
    workload: str = ""
    baseline: str = ""
    target: str | None = None
    setup_seconds: float = 0.0
    seconds: float = 0.0
    interrupted: bool = False
    warnings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    saved_model: str | None = None
    warm_seconds: float | None = None
    resumed: int = 0
    observed: Mapping[str, Effect] = attrs.field(factory=dict)
    recipe_toml: str = ""
    addition: Addition | None = None
    findings: tuple[Finding, ...] = ()

    def of_variant(self, variant: str) -> tuple[RunResult, ...]:
        """Return the runs of a variant that count."""
        return tuple(run for run in self.runs if run.variant == variant and run.ok)

    @property
    def failed(self) -> tuple[RunResult, ...]:
        """The runs that failed."""
        return tuple(run for run in self.runs if run.status == "failed")
