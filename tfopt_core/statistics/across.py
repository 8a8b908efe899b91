"""Compare the stacks of two measurements that were made separately, or say why they do not compare.

Pairs of two measurements share no seed and no state of the machine, as the runs of a pair do: the
samples are independent, and their variances may differ.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import attrs

from tfopt_core.errors import InputError
from tfopt_core.statistics import intervals
from tfopt_core.statistics.figures import (
    band_in_words,
    compared_seconds,
    no_difference_in_words,
    not_projected,
    verdict_on_interval,
)
from tfopt_core.statistics.intervals import range_in_words
from tfopt_core.statistics.results import SCHEMA_VERSION, ComparisonKind, Results, Verdict
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult, pairs_of


@attrs.frozen(kw_only=True)
class Across:
    """B's stack against A's, as `tfopt compare --json` writes it.

    `ids` are A's and B's, `own_statements` those of their own verdicts. With a `speedup` above 1
    B's stack is faster; [low, high] is its interval.
    """

    ids: tuple[str, str]
    own_statements: tuple[str, str]
    verdict: Verdict
    speedup: float
    low: float
    high: float
    confidence: float
    statement: str
    schema_version: int = SCHEMA_VERSION


def compare_stacks(a: Results, b: Results) -> Across:
    """Judge B's stack against A's and return the comparison.

    :raises InputError: with every reason why the two cannot be compared, one a line.
    """
    reasons, runs, seconds = list(_differences(a, b)), list[RunResult](), []
    for label, side in (("A", a), ("B", b)):
        judged = [run for run in side.runs if run.id in side.comparison.run_ids]
        runs += judged
        try:
            seconds.append(_seconds(side, judged))
        except ValueError as error:
            reasons.append(f"{label} {error}")
    if reasons:
        heading = f'A ("{a.id}") and B ("{b.id}") cannot be compared'
        raise InputError("\n".join(f"{heading}: {reason}" for reason in reasons))
    samples = [intervals.log_ratios(*sides) for sides in seconds]
    low, high = map(math.exp, welch_interval(*samples))
    speedup, of_what = math.sqrt(low * high), a.comparison.kind.qualifier
    figures = (
        f"{speedup:.2f}x ({1 - intervals.LEVEL:.0%} interval {range_in_words(low, high)}, "
        f"{len(samples[0])} and {len(samples[1])} pairs, each against its own baseline)"
    )
    verdict = verdict_on_interval(low, high)
    band = band_in_words(high) if verdict is Verdict.FASTER else ""
    statement = f"B's stack is {verdict.value} than A's{of_what}: {figures}{band}"
    if verdict is Verdict.NO_DIFFERENCE:
        statement = no_difference_in_words(figures, f" between the stacks{of_what}")
    elif verdict is Verdict.INCONCLUSIVE:
        statement = f"inconclusive: which stack is faster{of_what} cannot be told: {figures}"
    medians = [median(baseline) for baseline, _ in seconds]
    if max(medians) > 1.1 * min(medians):
        statement += (
            f"; the baselines differ (median {medians[0]:.4g} s in A, {medians[1]:.4g} s in B), "
            "so the conditions were not the same both times"
        )
    return Across(
        ids=(a.id, b.id), own_statements=(a.comparison.statement, b.comparison.statement),
        verdict=verdict, speedup=speedup, low=low, high=high, confidence=1 - intervals.LEVEL,
        statement=statement,
    )  # fmt: skip


def welch_interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return Welch's two-sided 95% interval of mean(b) - mean(a)."""
    from scipy import stats

    interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval(1 - intervals.LEVEL)
    return float(interval.low), float(interval.high)


def _seconds(results: Results, runs: Sequence[RunResult]) -> tuple[list[float], list[float]]:
    """Return the seconds of these runs that the verdict is about, by side, or raise a ValueError
    that says why they are not to be compared."""
    comparison = results.comparison
    if comparison.speedup is None or not comparison.verdict.comparable:
        raise ValueError(f"has no verdict to compare ({comparison.statement})")
    if failed := sum(run.variant == FULL for run in results.failed):
        raise ValueError(f"has {failed} failed runs with the stack, so the others may mislead")
    totals = comparison.kind is not ComparisonKind.STEPS
    timed = [r for r in runs if r.fits and r.wall_seconds and not (totals and not_projected(r))]
    if len(pairs := pairs_of(timed)) < intervals.MINIMUM_PAIRS:
        raise ValueError(f"has {len(pairs)} valid pairs, and it takes {intervals.MINIMUM_PAIRS}")
    seconds = compared_seconds(pairs, comparison.kind)
    if isinstance(seconds, str):
        raise ValueError(f"cannot be judged again: {seconds}")
    spread = intervals.t_interval(intervals.log_ratios(*seconds)).deviation
    if not spread >= intervals.SUSPICIOUS_DEVIATION:  # nor if it is nan
        raise ValueError("has the same ratio in each pair, which no measurement has")
    return seconds


def _differences(a: Results, b: Results) -> Iterator[str]:
    """Yield each condition that is not the same in both; what only one of them knows may differ."""
    if a.id == b.id:
        yield "it is the same measurement twice"
    variables = (*a.environment, *b.environment)
    here, there = _conditions(a, variables), _conditions(b, variables)
    for name in here:
        one, other = here[name], there.get(name, here[name])
        # the same machine reports its memory a little differently from boot to boot
        close = {type(one), type(other)} == {float} and math.isclose(one, other, rel_tol=0.05)
        if one != other and not close:
            yield f"{name} is {_in_words(one)} in A and {_in_words(other)} in B"


def _in_words(value: Any) -> str:
    return "not given" if value is None else json.dumps(value, default=str, ensure_ascii=False)


def _conditions(results: Results, variables: Sequence[str]) -> dict[str, Any]:
    """Return what must be the same, by its name in messages."""
    machine, kind = results.machine, results.comparison.kind
    conditions = {
        "the CPU": machine.get("cpu_model"),
        "the number of usable CPUs": machine.get("cpu_count"),
        "the memory in GiB": round((machine.get("memory_bytes") or 0) / 2**30, 1),
        "the list of GPUs": sorted(gpu["name"] for gpu in machine.get("gpus") or ()),
        "the workload": results.workload,
        "the baseline": results.baseline,
        "the kind of comparison": kind,
        "the target": results.target if kind is ComparisonKind.TIME_TO_TARGET else None,
        **{f"the environment's {name}": results.environment.get(name) for name in variables},
    }
    try:
        workload = tomllib.loads(results.recipe_toml).get("workload")
    except (ValueError, RecursionError) as error:
        raise InputError(f'the recipe of "{results.id}" is damaged: {error}') from error
    if isinstance(workload, dict):  # a file may have been edited
        for key in ("args", "options", "loop", "fit", "max_epochs", "max_steps"):
            conditions[f"the workload's {key}"] = workload.get(key) or None
    for name in ("planned_epochs", "planned_steps", "batch_size", "trainable_parameters"):
        values = {getattr(r.fit, name) for r in results.of_variant(BASELINE) if r.fits} - {None}
        if len(values) == 1:  # one that varies is unknown
            conditions[f"{name} of the baseline's trainings"] = values.pop()
    return conditions
