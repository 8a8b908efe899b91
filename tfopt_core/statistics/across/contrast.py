"""Compare two stacks, each measured separately against its own baseline.

The runs of a pair share a seed and the state of the machine; pairs of two measurements share
neither. So the samples are independent, and their variances may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.errors import NotComparable
from tfopt_core.records.results import SCHEMA_VERSION, Comparison, Quality
from tfopt_core.records.variants import BASELINE
from tfopt_core.records.verdict import ComparisonKind, QualityVerdict, Verdict
from tfopt_core.statistics.across.comparable import Measured, refusals
from tfopt_core.statistics.across.quality import QualityContrast, contrast_quality
from tfopt_core.statistics.across.time import judge, level_of
from tfopt_core.statistics.intervals import median
from tfopt_core.statistics.pairs import applied_plugins
from tfopt_core.statistics.welch import welch_interval

# If the baselines differ by more, the machine's conditions were not the same.
BASELINE_DRIFT = 0.10


@attrs.frozen(kw_only=True)
class Side:
    """One of the two measurements; `log_ratios` are ln(T_baseline / T_stack) of its pairs."""

    name: str
    id: str
    recipe: str
    recipe_sha256: str
    resolved: Mapping[str, Mapping[str, Any]]
    applied: tuple[str, ...]
    baseline_seconds: float
    log_ratios: tuple[float, ...]
    comparison: Comparison

    @property
    def quality(self) -> Quality | None:
        """The quality in its own comparison."""
        return self.comparison.quality


@attrs.frozen
class PluginDifference:
    """A plugin that is in one stack only (None in the other), or has other settings there."""

    plugin: str
    a: Mapping[str, Any] | None
    b: Mapping[str, Any] | None


@attrs.frozen(kw_only=True)
class Across:
    """B's stack against A's, as `tfopt compare --json` writes it.

    With a `speedup` above 1 B's stack is faster; [low, high] is its interval.
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
    degrees_of_freedom: float
    statement: str
    quality: QualityContrast
    same_recipe: bool
    same_order: bool
    plugins: tuple[PluginDifference, ...]
    notes: tuple[str, ...]
    schema_version: int = SCHEMA_VERSION


def compare_stacks(a: Measured, b: Measured) -> Across:
    """Judge B's stack against A's and return the comparison.

    :raises NotComparable: with every reason why the two cannot be compared.
    """
    reasons = refusals(a, b)
    if reasons:
        raise NotComparable((a.name, b.name), reasons)
    sides = _side(a), _side(b)
    level = level_of(sides[0].comparison, sides[1].comparison)
    interval = welch_interval(sides[0].log_ratios, sides[1].log_ratios, level)
    verdict, statement = judge(
        interval, a.results.comparison.kind, (*a.judged_runs(), *b.judged_runs())
    )
    here, there = (dict(side.resolved) for side in sides)
    common = [name for name in here if name in there]
    return Across(
        a=sides[0],
        b=sides[1],
        workload=a.results.workload,
        kind=a.results.comparison.kind,
        verdict=verdict,
        speedup=math.exp(interval.difference),
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        confidence=interval.confidence,
        degrees_of_freedom=interval.degrees_of_freedom,
        statement=statement,
        quality=contrast_quality(a, b, level),
        same_recipe=a.results.recipe_sha256 == b.results.recipe_sha256,
        same_order=common == [name for name in there if name in here],
        plugins=tuple(
            PluginDifference(name, here.get(name), there.get(name))
            for name in dict.fromkeys((*here, *there))
            if here.get(name) != there.get(name)
        ),
        notes=_notes(*sides),
    )


def _side(measured: Measured) -> Side:
    results, pairs = measured.results, measured.pairs
    return Side(
        name=measured.name,
        id=results.id,
        recipe=results.recipe,
        recipe_sha256=results.recipe_sha256,
        resolved=results.resolved,
        applied=applied_plugins([pair.with_ for pair in pairs]),
        baseline_seconds=median(measured.seconds()[0]),
        log_ratios=tuple(measured.log_ratios()),
        comparison=results.comparison,
    )


def _notes(a: Side, b: Side) -> tuple[str, ...]:
    """Return what a reader must know besides the verdict."""
    notes = []
    for label, side in (("A", a), ("B", b)):
        if side.comparison.verdict in (Verdict.WORSE, Verdict.QUALITY_OPEN):
            notes.append(f"{label}'s own verdict is: {side.comparison.statement}")
        elif side.quality is not None and side.quality.verdict is QualityVerdict.WORSE:
            notes.append(f"{label}'s own {side.quality.statement}")
    seconds = sorted((a.baseline_seconds, b.baseline_seconds))
    if seconds[1] > (1 + BASELINE_DRIFT) * seconds[0]:
        notes.append(
            f"the {BASELINE}s differ (median {a.baseline_seconds:.4g} s in A, "
            f"{b.baseline_seconds:.4g} s in B), so the conditions were not the same both times"
        )
    return tuple(notes)
