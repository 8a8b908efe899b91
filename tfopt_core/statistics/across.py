"""Compare the stacks of two measurements that were made separately, or say why they do not compare.

The runs of a pair share a seed and the state of the machine; pairs of two measurements share
neither. So the samples are independent, and their variances may differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import NotComparable
from tfopt_core.records.results import SCHEMA_VERSION, Comparison, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.disturbance import no_difference
from tfopt_core.statistics.figures import compared_seconds, not_projected
from tfopt_core.statistics.intervals import (
    FIXED_LEVEL,
    LOOK_LEVEL,
    MINIMUM_PAIRS,
    log_ratios,
    median,
)
from tfopt_core.statistics.judgement import band_in_words, verdict_on_interval
from tfopt_core.statistics.pairs import Pair, applied_plugins, pairs_of
from tfopt_core.statistics.wording import range_in_words

# The same machine reports its memory a little differently from boot to boot.
MEMORY_TOLERANCE = 0.05
# If the baselines differ by more, the machine's conditions were not the same.
BASELINE_DRIFT = 0.10


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

    @property
    def runs(self) -> tuple[RunResult, ...]:
        """The runs of these pairs."""
        return tuple(run for pair in self.pairs for run in (pair.without, pair.with_))

    def seconds(self) -> tuple[list[float], list[float]]:
        """Return both sides' seconds per pair, of the figure that its own verdict is about.

        :raises ValueError: if a run has no such figure.
        """
        kind = self.results.comparison.kind
        for run in self.runs:
            if not run.fits or run.wall_seconds is None:
                raise ValueError("runs have no wall time")
            if kind is not ComparisonKind.STEPS and not_projected(run) is not None:
                raise ValueError("runs have no projected time")
        figures = compared_seconds(self.pairs, kind)
        if isinstance(figures, str):
            raise ValueError(figures)
        return figures


@attrs.frozen(kw_only=True)
class Side:
    """One of the two measurements; `log_ratios` are ln(T_baseline / T_stack) of its pairs."""

    name: str
    id: str
    recipe: str
    resolved: Mapping[str, Mapping[str, Any]]
    applied: tuple[str, ...]
    baseline_seconds: float
    log_ratios: tuple[float, ...]
    comparison: Comparison


@attrs.frozen(kw_only=True)
class Across:
    """B's stack against A's, as `tfopt compare --json` writes it.

    With a `speedup` above 1 B's stack is faster; [low, high] is its interval. `warning` says that
    the conditions of the two were not the same, "" if nothing shows that.
    """

    a: Side
    b: Side
    workload: str
    kind: ComparisonKind
    verdict: Verdict
    speedup: float
    low: float
    high: float
    confidence: float
    statement: str
    warning: str = ""
    schema_version: int = SCHEMA_VERSION


def compare_stacks(a: Measured, b: Measured) -> Across:
    """Judge B's stack against A's and return the comparison.

    :raises NotComparable: with every reason why the two cannot be compared.
    """
    reasons = tuple(_refusals(a, b))
    if reasons:
        raise NotComparable((a.name, b.name), reasons)
    sides = _side(a), _side(b)
    level = _level(a.results.comparison, b.results.comparison)
    low, high = welch_interval(sides[0].log_ratios, sides[1].log_ratios, level)
    kind, low, high = a.results.comparison.kind, math.exp(low), math.exp(high)
    speedup = math.sqrt(low * high)
    figures = (
        f"{speedup:.2f}x ({1 - level:.0%} interval {range_in_words(low, high)}, "
        f"{len(a.pairs)} and {len(b.pairs)} pairs, each against its own baseline)"
    )
    verdict = verdict_on_interval(low, high)
    if verdict is Verdict.NO_DIFFERENCE:
        what = f" between the stacks{kind.qualifier}"
        verdict, statement = no_difference((*a.runs, *b.runs), figures, what)
    elif verdict is Verdict.INCONCLUSIVE:
        statement = (
            f"inconclusive: which stack is faster{kind.qualifier} cannot be told from these pairs; "
            f"B's against A's is {figures}"
        )
    else:
        band = band_in_words(high) if verdict is Verdict.FASTER else ""
        statement = f"B's stack is {verdict.value} than A's{kind.qualifier}: {figures}{band}"
    return Across(
        a=sides[0], b=sides[1], workload=a.results.workload, kind=kind, verdict=verdict,
        speedup=speedup, low=low, high=high, confidence=1 - level, statement=statement,
        warning=_drift(*sides),
    )  # fmt: skip


def welch_interval(
    first: Sequence[float], second: Sequence[float], level: float
) -> tuple[float, float]:
    """Return the two-sided interval of mean(second) - mean(first), which is its middle.

    Welch, The generalization of "Student's" problem when several different population variances
    are involved, Biometrika 34 (1947).

    :param level: the two-sided error rate, 0.05 for a 95% interval.
    """
    from scipy import stats

    interval = stats.ttest_ind(second, first, equal_var=False).confidence_interval(1 - level)
    return float(interval.low), float(interval.high)


def _level(a: Comparison, b: Comparison) -> float:
    """Return the two-sided nominal level: 0.05, or that of a look if a measurement stopped at one.

    Stopping as soon as the difference looks clear biases the mean outwards: a 95% interval of the
    contrast then misses in up to 9% of cases, a 98% interval in at most 5% (simulated in
    tests/unit/statistics/test_across.py).
    """
    halfway = 1 - (FIXED_LEVEL + LOOK_LEVEL) / 2
    looked = any((comparison.confidence or 0) > halfway for comparison in (a, b))
    return LOOK_LEVEL if looked else FIXED_LEVEL


def _side(measured: Measured) -> Side:
    results, seconds = measured.results, measured.seconds()
    return Side(
        name=measured.name, id=results.id, recipe=results.recipe, resolved=results.resolved,
        applied=applied_plugins([pair.with_ for pair in measured.pairs]),
        baseline_seconds=median(seconds[0]), log_ratios=tuple(log_ratios(*seconds)),
        comparison=results.comparison,
    )  # fmt: skip


def _drift(a: Side, b: Side) -> str:
    seconds = sorted((a.baseline_seconds, b.baseline_seconds))
    if seconds[1] <= (1 + BASELINE_DRIFT) * seconds[0]:
        return ""
    return (
        f"the {BASELINE}s differ (median {a.baseline_seconds:.4g} s in A, "
        f"{b.baseline_seconds:.4g} s in B), so the conditions were not the same both times"
    )


# Refusals


def _refusals(a: Measured, b: Measured) -> Iterator[str]:
    """Yield each reason why the two measurements cannot be compared."""
    if a.results.id == b.results.id:
        yield f'it is the same measurement twice ("{a.results.id}")'
        return
    recipes = bool(a.recipe and b.recipe)
    here, there = _conditions(a, recipes=recipes), _conditions(b, recipes=recipes)
    sizes = _sizes(a), _sizes(b)
    both = [name for name in sizes[0] if name in sizes[1]]
    here |= {name: sizes[0][name] for name in both}
    there |= {name: sizes[1][name] for name in both}
    for name in dict.fromkeys((*here, *there)):
        values = here.get(name), there.get(name)
        if not _alike(*values):
            yield f"{name} is {_in_words(values[0])} in A and {_in_words(values[1])} in B"
    for label, side in (("A", a), ("B", b)):
        if why := _why_unjudged(side):
            yield f"{label} {why}"


def _conditions(side: Measured, *, recipes: bool) -> dict[str, Any]:
    """Return what must be the same, by its name in messages; what is not there is not given.

    :param recipes: whether the recipes of both are known.
    """
    results, workload = side.results, side.recipe.get("workload") or {}
    machine, kind = results.machine, results.comparison.kind
    conditions = {
        "the CPU": machine.get("cpu_model"),
        "the number of usable CPUs": machine.get("cpu_count"),
        "the memory in GiB": (machine.get("memory_bytes") or 0) / 2**30,
        "the list of GPUs": sorted(
            str(gpu.get("name")) if isinstance(gpu, Mapping) else str(gpu)
            for gpu in machine.get("gpus") or ()
        ),
        "the workload": results.workload,
        "the baseline": results.baseline,
        "the kind of comparison": kind,
        "the target": results.target if kind is ComparisonKind.TIME_TO_TARGET else None,
        **{f"the environment's {name}": value for name, value in results.environment.items()},
    }
    given = ("args", "options", "loop", "fit", "max_epochs", "max_steps") if recipes else ()
    return conditions | {f"the workload's {key}": workload.get(key) or None for key in given}


def _alike(here: Any, there: Any) -> bool:
    if isinstance(here, float) and isinstance(there, float):
        return math.isclose(here, there, rel_tol=MEMORY_TOLERANCE)
    return bool(here == there)


def _sizes(side: Measured) -> dict[str, Any]:
    """Return what must be the same where both know it: a file has no recipe, and what its baseline
    trained takes the place of that."""
    workload = side.recipe.get("workload") or {}
    sizes = {f"the workload's {key}": workload.get(key) for key in ("epochs", "batch_size")}
    fits = [run.fit for run in side.results.of_variant(BASELINE) if run.fits]
    for name in ("epochs", "steps", "trainable_parameters"):
        whole = name != "trainable_parameters"
        values = {getattr(fit, name) for fit in fits if fit.complete or not whole}
        # one that varies is unknown
        sizes[f"{name} of the baseline's trainings"] = values.pop() if len(values) == 1 else None
    return {name: value for name, value in sizes.items() if value is not None}


def _why_unjudged(side: Measured) -> str:
    """Return why there is no verdict to compare; "" if there is one."""
    comparison = side.results.comparison
    failed = sum(run.status == "failed" and run.variant == FULL for run in side.results.runs)
    if comparison.speedup is None or not comparison.verdict.comparable:
        return f"has no verdict to compare ({comparison.statement})"
    if failed:
        return f"has {failed} failed runs with the stack, so those that did not fail may mislead"
    if len(side.pairs) < MINIMUM_PAIRS:
        return f"has {len(side.pairs)} valid pairs, and it takes {MINIMUM_PAIRS}"
    try:
        if len(set(log_ratios(*side.seconds()))) == 1:
            return "has the same ratio in each pair, which no measurement has"
    except ValueError as error:
        return f"cannot be judged again: {error}"
    return ""


def _in_words(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_in_words, value)) or "none"
    return json.dumps(value, default=str, ensure_ascii=False)
