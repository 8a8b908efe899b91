"""Pairs of runs that share a seed, the figure by which they are compared, and further ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from tfopt_core.hooks.plugin_class import EQUIVALENCES, Equivalence
from tfopt_core.recipe.model import Objective
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, log_ratios, speedup_interval, t_interval
from tfopt_core.statistics.results import ComparisonKind, FigureRatio, Verdict
from tfopt_core.statistics.runs import Pair, RunResult, pairs_of, wall_seconds

# Smaller differences are of no interest (docs/guide/measuring.md, "Verdicts").
INDIFFERENCE = 0.05
DEFAULT_TOLERANCE = 0.005
# The tolerance for a metric that is no share, relative to the baseline's mean.
RELATIVE_TOLERANCE = 0.01


def compared_seconds(
    pairs: Sequence[Pair], kind: ComparisonKind
) -> tuple[list[float], list[float]] | str:
    """Return both sides' seconds, per pair; or why there are none to compare.

    A run that never reaches the target counts as the slowest, and two of one side void the result,
    as in MLPerf.
    """
    sides = [p.without for p in pairs], [p.with_ for p in pairs]
    if kind is ComparisonKind.STEPS:
        steps = [
            (seconds_in_steps(p.without, p.with_), seconds_in_steps(p.with_, p.without))
            for p in pairs
        ]
        known = [(before, after) for before, after in steps if before and after]
        if len(known) < len(pairs):
            return "void: of some runs the time of a step is not known"
        return [before for before, _ in known], [after for _, after in known]
    if kind is not ComparisonKind.TIME_TO_TARGET:
        return [total_seconds(run) for run in sides[0]], [total_seconds(run) for run in sides[1]]
    figures = []
    for side in sides:
        missed = [run for run in side if run.fit.seconds_to_target is None]
        if len(missed) > 1:
            return (
                f'void: {len(missed)} of {len(side)} runs of "{side[0].variant}" never reached '
                "the target, so there is no time to it; lower the target or train longer"
            )
        # a run that missed the target took at least its whole wall time
        reached = [run.fit.seconds_to_target for run in side]
        slowest = max(
            wall_seconds(run) if s is None else s for run, s in zip(side, reached, strict=True)
        )
        figures.append([slowest if seconds is None else seconds for seconds in reached])
    return figures[0], figures[1]


def total_seconds(run: RunResult) -> float:
    """Return the wall time of a whole training: measured, or from the pieces of a run that was cut
    short or trained in turns."""
    fits = run.timed_fits
    if all(fit.projected_seconds is None for fit in fits):
        return wall_seconds(run)
    totals = [one.wall_seconds if (s := one.projected_seconds) is None else s for one in fits]
    # a run is cut short once it can be projected
    assert all(seconds is not None for seconds in totals)
    return math.fsum(seconds for seconds in totals if seconds is not None)


def seconds_in_steps(run: RunResult, other: RunResult | None = None) -> float | None:
    """Return the seconds of all steps of a whole training, at their mean; None if unknown.

    Start-up and the starts of epochs are left out. Where the number of steps is unknown, it is that
    of the other side, and where neither side knows it, one.

    :param other: the run of the other side of a pair.
    """
    fits = run.timed_fits
    others = [None] * len(fits) if other is None else other.timed_fits
    known = [
        fit.step_seconds * (fit.planned_steps or (pair and pair.planned_steps) or 1)
        for fit, pair in zip(fits, others, strict=False)
        if fit.step_seconds is not None
    ]
    return math.fsum(known) if known and len(known) == len(fits) else None


def not_projected(run: RunResult) -> str | None:
    """Return why the total of a run that was cut short is unknown; None if it is known."""
    cut = [fit for fit in run.timed_fits if not fit.complete and fit.projected_seconds is None]
    return (cut[0].why_not_projected or "the total is not known") if cut else None


Read = Callable[[RunResult], float | None]


def ratios(runs: Sequence[RunResult]) -> tuple[FigureRatio, ...]:
    """Return the ratio, baseline over full stack, of each figure that all pairs have.

    They decide nothing, so the level is not corrected for their number.
    """
    pairs = pairs_of(runs)
    if len(pairs) < MINIMUM_PAIRS:
        return ()
    found = []
    for figure, read in FIGURES.items():
        values = [(read(p.without), read(p.with_)) for p in pairs]
        known = [(b, o) for b, o in values if b and o and b > 0 and o > 0]
        if len(known) == len(pairs):
            interval = t_interval(log_ratios(*zip(*known, strict=True)))
            ratio, low, high = speedup_interval(interval)
            found.append(
                FigureRatio(figure=figure, ratio=ratio, low=low, high=high, pairs=len(known))
            )
    return tuple(found)


def _total(run: RunResult) -> float | None:
    return None if not_projected(run) is not None else total_seconds(run)


FIGURES: dict[str, Read] = {
    "wall_seconds": _total,
    "step_seconds": lambda run: run.fit.step_seconds,
    "examples_per_second": lambda run: run.fit.examples_per_second,
    "one_time_seconds": lambda run: run.fit.one_time_seconds,
    "epochs_to_target": lambda run: run.fit.epochs_to_target,
    "seconds_to_target": lambda run: run.fit.seconds_to_target,
    "peak_rss_bytes": lambda run: run.peak_rss_bytes,
    "peak_device_bytes": lambda run: run.peak_device_bytes,
}


@attrs.frozen(kw_only=True)
class Judgement:
    """The rules of one measurement.

    :param metric: the metric of quality, "" for a script's own loop, which reports none.
    :param tolerance: by how much the metric may be worse; None means 0.005 for a metric that is
        better high (a share), and 1% of the baseline's mean for one that is better low.
    :param examples: the size of the validation set, None if unknown.
    :param equivalence: what the stack as a whole does to the training.
    :param projected: whether some run was cut short, so that totals are projected.
    :param per_step: whether the total of some run cannot be projected, so that steps are compared.
    :param certificate: the certificate of a replay, None if none was made.
    :param objective: which contrast is the headline.
    :param batch_sizes: the global batch of the baseline and of the full stack, None if unknown.
    """

    metric: str
    direction: Literal["max", "min"]
    tolerance: float | None
    examples: int | None
    equivalence: Equivalence
    projected: bool = False
    per_step: bool = False
    certificate: Certificate | None = None
    objective: Objective = "time"
    batch_sizes: tuple[int | None, int | None] = (None, None)

    @property
    def kind(self) -> ComparisonKind:
        """The kind of comparison: time to target for a stack that changes the algorithm, or where
        that is the objective."""
        if self.equivalence == "changes" or self.objective == "time-to-target":
            return ComparisonKind.TIME_TO_TARGET
        if self.per_step:
            return ComparisonKind.STEPS
        return ComparisonKind.STEADY if self.projected else ComparisonKind.END_TO_END

    def tolerance_for(self, baseline: float) -> float:
        """Return the tolerance, given the baseline's mean of the metric."""
        if self.tolerance is not None:
            return self.tolerance
        if self.direction == "max":
            return DEFAULT_TOLERANCE
        return RELATIVE_TOLERANCE * abs(baseline)


def verdict_on_interval(low: float, high: float) -> Verdict:
    """Return what an interval of a speedup shows: FASTER, SLOWER, NO_DIFFERENCE or INCONCLUSIVE."""
    if low <= 1 <= high:
        return Verdict.NO_DIFFERENCE if indifferent(low, high) else Verdict.INCONCLUSIVE
    return Verdict.FASTER if low > 1 else Verdict.SLOWER


def indifferent(low: float, high: float) -> bool:
    """Return whether an interval of ratios lies within the 5% that nobody minds."""
    return low >= 1 / (1 + INDIFFERENCE) and high <= 1 + INDIFFERENCE


def no_difference_in_words(figures: str, of_what: str) -> str:
    """Return the sentence on an interval that is indifferent.

    :param of_what: of what it is true, such as " to the target".
    """
    return f"no measurable difference{of_what} (within {INDIFFERENCE:.0%}): {figures}"


def band_in_words(high: float) -> str:
    """Return ` (within the 5% band)` for a gain that ends inside it, "" for a larger one."""
    return f" (within the {INDIFFERENCE:.0%} band)" if high < 1 + INDIFFERENCE else ""


def stack_equivalence(maths: Sequence[Equivalence]) -> Equivalence:
    """Return what a stack does to the training, that of its furthest-reaching plugin.

    With a plugin that rounds, one that declares nothing leaves the stack at "rounding": a replay
    could not certify it, and the statistics of quality decide in both cases.
    """
    furthest: Equivalence = max(maths, key=EQUIVALENCES.index, default="exact")
    return "rounding" if furthest == "unknown" and "rounding" in maths else furthest
