"""Decide whether two measurements may be compared; if not, give all reasons at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.records.results import Comparison, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.statistics.figures import compared_seconds, not_projected
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, log_ratios
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import Pair, pairs_of

# The same machine reports its memory a little differently from boot to boot.
MEMORY_TOLERANCE = 0.05
SIZES = ("epochs", "batch_size")
VERSIONS = ("python", "tensorflow", "keras", "numpy")


@attrs.frozen(kw_only=True)
class Measured:
    """A finished measurement, read from the store or from a file.

    :param name: the id or the path by which the user named it.
    :param recipe: the recipe stored with the measurement; empty for a JSON file, which has none.
    """

    name: str
    results: Results
    recipe: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that its own verdict is based on."""
        judged = set(self.results.comparison.run_ids)
        return pairs_of([run for run in self.results.runs if run.id in judged])

    def seconds(self) -> tuple[list[float], list[float]]:
        """Return both sides' seconds per pair, of the figure that its own verdict is about.

        :raises ValueError: if a run has no such figure.
        """
        for run in self.judged_runs():
            if not run.fits or run.wall_seconds is None:
                raise ValueError("runs have no wall time")
            if (
                self.results.comparison.kind is not ComparisonKind.STEPS
                and not_projected(run) is not None
            ):
                raise ValueError("runs have no projected time")
        figures = compared_seconds(self.pairs, _judgement(self.results.comparison))
        if isinstance(figures, str):
            raise ValueError(figures)
        return figures

    def log_ratios(self) -> list[float]:
        """Return ln(T_baseline / T_stack) of each pair.

        :raises ValueError: if a run has no such figure.
        """
        return log_ratios(*self.seconds())

    def judged_runs(self) -> tuple[RunResult, ...]:
        """Return the runs of its pairs."""
        return tuple(run for pair in self.pairs for run in (pair.without, pair.with_))


def _judgement(comparison: Comparison) -> Judgement:
    """Return the rules that choose the compared figure; the other rules have no effect here."""
    return Judgement(
        metric="", direction="max", tolerance=None, examples=None, target=None, sequential=False,
        math="changes" if comparison.kind is ComparisonKind.TIME_TO_TARGET else "exact",
        per_step=comparison.kind is ComparisonKind.STEPS,
    )  # fmt: skip


def refusals(a: Measured, b: Measured) -> tuple[str, ...]:
    """Return why the two measurements cannot be compared; empty if they can."""
    return tuple(
        reason
        for reasons in (
            _same(a, b), _machine(a, b), _workload(a, b), _software(a, b), _judged_alike(a, b),
            _unjudged("A", a), _unjudged("B", b),
        )
        for reason in reasons
    )  # fmt: skip


def _same(a: Measured, b: Measured) -> Iterator[str]:
    if a.results.id == b.results.id:
        yield f'it is the same measurement twice ("{a.results.id}")'


def _machine(a: Measured, b: Measured) -> Iterator[str]:
    here, there = a.results.machine, b.results.machine
    for key, name in (("cpu_model", "the CPU"), ("cpu_count", "the number of usable CPUs")):
        if here.get(key) != there.get(key):
            yield _differs("machine", name, here.get(key), there.get(key))
    sizes = [(machine.get("memory_bytes") or 0) / 2**30 for machine in (here, there)]
    if abs(sizes[0] - sizes[1]) > MEMORY_TOLERANCE * max(sizes):
        yield _differs("machine", "the memory", *(f"{size:.1f} GiB" for size in sizes))
    gpus = [sorted(map(_gpu, machine.get("gpus") or ())) for machine in (here, there)]
    if gpus[0] != gpus[1]:
        yield _differs("machine", "the list of GPUs", *gpus)


def _gpu(gpu: Any) -> str:
    return str(gpu.get("name")) if isinstance(gpu, Mapping) else str(gpu)


def _workload(a: Measured, b: Measured) -> Iterator[str]:
    if a.results.workload != b.results.workload:
        yield _differs("workload", "it", a.results.workload, b.results.workload)
        return  # the other differences follow from that
    if a.results.baseline != b.results.baseline:
        yield _differs("workload", "its baseline", a.results.baseline, b.results.baseline)
    specs = [side.recipe.get("workload") or {} for side in (a, b)]
    sizes = []
    if all(specs):
        for key in ("args", "options", "loop", "fit", "max_epochs", "max_steps"):
            given = [spec.get(key) or None for spec in specs]
            if given[0] != given[1]:
                yield _differs("workload", key, *given)
        # a size that only one recipe sets is compared by the runs
        sizes = [key for key in SIZES if all(key in spec for spec in specs)]
        sizes = [key for key in sizes if specs[0][key] != specs[1][key]]
        for key in sizes:
            yield _differs("workload", key, *(spec[key] for spec in specs))
    for name in ("trainable_parameters",) if sizes else ("epochs", "steps", "trainable_parameters"):
        trained = [_constant(side, name) for side in (a, b)]
        if None not in trained and trained[0] != trained[1]:
            yield _differs("workload", f"{name} of the baseline's trainings", *trained)


def _constant(side: Measured, name: str) -> int | None:
    """Return a figure of the baseline's trainings, None if it varies or is unknown."""
    fits = [run.fit for run in side.results.of_variant(BASELINE) if run.fits]
    values = {getattr(fit, name) for fit in fits if fit.complete or name == "trainable_parameters"}
    return values.pop() if len(values) == 1 else None


def _software(a: Measured, b: Measured) -> Iterator[str]:
    here, there = a.results.environment, b.results.environment
    for key in dict.fromkeys((*VERSIONS, *here, *there)):
        if here.get(key) != there.get(key):
            what = "version" if key in VERSIONS else "environment"
            yield _differs(what, key, here.get(key), there.get(key))


def _judged_alike(a: Measured, b: Measured) -> Iterator[str]:
    one, other = a.results.comparison, b.results.comparison
    if one.kind != other.kind:
        yield _differs("kind of comparison", "the verdict", one.kind, other.kind)
    elif one.kind is ComparisonKind.TIME_TO_TARGET and a.results.target != b.results.target:
        yield _differs("target", "the goal", a.results.target, b.results.target)
    if one.quality is not None and other.quality is not None:
        for key in ("metric", "direction"):
            values = getattr(one.quality, key), getattr(other.quality, key)
            if values[0] != values[1]:
                yield _differs("quality metric", f"the {key}", *values)


def _unjudged(name: str, side: Measured) -> Iterator[str]:
    results = side.results
    comparison = results.comparison
    failed = sum(run.status == "failed" and run.variant == FULL for run in results.runs)
    if comparison.speedup is None or not comparison.verdict.comparable:
        yield f"{name} has no verdict to compare ({comparison.statement})"
    elif failed:
        yield f"{failed} of {name}'s runs with the stack failed, so those that did not may mislead"
    elif len(side.pairs) < MINIMUM_PAIRS:
        yield f"{name} has {len(side.pairs)} valid pairs, and it takes {MINIMUM_PAIRS}"
    else:
        try:
            side.log_ratios()
        except ValueError as error:
            yield f"{name} cannot be judged again: {error}"


def _differs(what: str, key: str, here: Any, there: Any) -> str:
    return f"other {what}: {key} is {_in_words(here)} in A and {_in_words(there)} in B"


def _in_words(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_in_words, value)) or "none"
    return json.dumps(value, default=str, ensure_ascii=False)
