"""The results of a measurement, as frozen plain data. The field names are those of `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from tfopt_core.hooks.card import Equivalence
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.values import Effect
from tfopt_core.recipe.model import Objective
from tfopt_core.records.run import FitFacts, RunFacts
from tfopt_core.records.verdict import ComparisonKind, MemoryVerdict, QualityVerdict, Verdict

SCHEMA_VERSION = 4

# "served": the process only served a training of other processes.
RunStatus = Literal["ok", "failed", "served"]


@attrs.frozen(kw_only=True)
class FitResult(FitFacts):
    """One fit of a run.

    `one_time_seconds` are tracing, compilation, cache filling and, for several processes,
    `cluster_seconds`. `step_seconds` is the mean of the warm blocks, stalls included, None if
    there are none. `metrics` are the last epoch's. `epochs_to_target` and `seconds_to_target`
    (counted from the start of the run's training) are None without a target or if it was not
    reached. A fit that was cut short is not `complete`: its metrics are no result, and
    `projected_seconds` is what the whole training would take; None if unknown, for the reason
    in `why_not_projected`. `wall_seconds` are those of a script's call of `fit`.
    """

    one_time_seconds: float
    step_seconds: float | None
    examples_per_second: float | None
    epochs_to_target: int | None
    seconds_to_target: float | None
    metrics: Mapping[str, float]
    complete: bool = True
    projected_seconds: float | None = None
    why_not_projected: str = ""
    wall_seconds: float | None = None

    @property
    def planned_steps(self) -> int | None:
        """The steps, with those that were left out when it was cut short; None if unknown."""
        if self.complete:
            return self.steps
        if self.planned_epochs is None or self.steps_per_epoch is None:
            return None
        return self.planned_epochs * self.steps_per_epoch


@attrs.frozen(kw_only=True)
class RunResult(RunFacts):
    """One run: one training in one process.

    `variant` is "baseline", "full" or "without NAME"; `round` and `position` count from 0 and say
    when it ran; `started` says how its process began ("spawned" or "forked"). `process_seconds`
    hold its whole process; `disturbance` is what else the machine did meanwhile. A failed run has
    its cause in `error` and the end of its output in `output_tail`, and does not count.
    """

    id: str
    variant: str
    round: int
    position: int
    seed: int
    status: RunStatus
    process_seconds: float | None = None
    started: str = "spawned"
    disturbance: Mapping[str, float] = attrs.field(factory=dict)
    fits: tuple[FitResult, ...] = ()
    error: str | None = None
    output_path: str | None = None
    output_tail: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.ok and self.judged is not None and not 0 <= self.judged < len(self.fits):
            raise ValueError(f"run {self.id} has no fit {self.judged} that could be judged")

    @property
    def ok(self) -> bool:
        """Whether the run counts."""
        return self.status == "ok"

    @property
    def fit(self) -> FitResult:
        """The fit whose model is judged: the named one, else the last."""
        return self.fits[-1 if self.judged is None else self.judged]

    def value_of(self, metric: str) -> float | None:
        """Return a metric of the judged fit; if none is named, of the last that reports it."""
        reported = (fit.metrics.get(metric) for fit in reversed(self.timed_fits))
        return next((value for value in reported if value is not None), None)

    @property
    def timed_fits(self) -> tuple[FitResult, ...]:
        """The fits whose time is judged: the named one, else all."""
        return self.fits if self.judged is None else (self.fits[self.judged],)

    @property
    def complete(self) -> bool:
        """Whether all timed fits were trained to their end."""
        return all(fit.complete for fit in self.timed_fits)


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
    settings of the whole second stack, `equivalence` is what it does to the mathematics, `variant`
    the name of its runs. `speedup` is that over the full stack, with its interval [low, high], and
    `total` that over the baseline, with its own; all are None where they were not measured, and
    the statement says why. `quality` is that of its model against the baseline's. No verdict
    depends on it.
    """

    plugins: tuple[str, ...]
    resolved: Mapping[str, Mapping[str, Any]]
    equivalence: Equivalence
    variant: str
    verdict: Verdict
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
    statement: str


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
    run trained `warm_seconds` behind its start, None to its end;
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
