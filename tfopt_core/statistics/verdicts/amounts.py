"""Check that both sides of the pairs trained equally long and ended with finite metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.fit import TrainingCounts
from tfopt_core.records.results import RunResult
from tfopt_core.statistics.pairs import Pair


def unlike_amounts(pairs: Sequence[Pair]) -> str | None:
    """Return how the amounts of training differ, in words; None if they are the same.

    `10 epochs in "baseline" and 5 in "full"`. For a run that was cut short the planned amounts
    count. Amounts that are unknown for one side are not compared.
    """
    for what, amount in (("epochs", _epochs), ("steps", _steps), ("examples", examples)):
        unlike = [
            (before, after)
            for before, after in ((amount(p.without), amount(p.with_)) for p in pairs)
            if before is not None and after is not None and before != after
        ]
        if unlike:
            before, after = unlike[0]
            where = (
                "" if len(unlike) == len(pairs) else f" (in {len(unlike)} of {len(pairs)} pairs)"
            )
            one, other = pairs[0].without.variant, pairs[0].with_.variant
            return f'{before:,} {what} in "{one}" and {after:,} in "{other}"{where}'
    return _unlike_counts(pairs)


def _unlike_counts(pairs: Sequence[Pair]) -> str | None:
    """Return which count of what was done differs, in words; None if all are the same."""
    unlike = [
        difference
        for pair in pairs
        for fit, other_fit in zip(pair.without.timed_fits, pair.with_.timed_fits, strict=False)
        if (
            difference := unlike_counts(
                fit.counts, other_fit.counts, whole=fit.complete and other_fit.complete
            )
        )
        is not None
    ]
    if not unlike:
        return None
    one, other = pairs[0].without.variant, pairs[0].with_.variant
    what, before, after = unlike[0]
    return f'{what}: {before} in "{one}" and {after} in "{other}"'


def unlike_counts(
    ours: TrainingCounts, theirs: TrainingCounts, *, whole: bool = True
) -> tuple[str, str, str] | None:
    """Return a count that differs, and both values; None if all that are known are the same.

    :param whole: whether both fits have trained to their end; else the epochs that both have
        trained whole are compared.
    """
    series = [
        ("updates of an epoch", *pair) for pair in zip(ours.updates, theirs.updates, strict=False)
    ]
    series += [
        ("examples of an epoch", ours.examples, theirs.examples),
        ("examples of a validation", ours.validation_examples, theirs.validation_examples),
    ]
    for what, before, after in series:
        if not before or not after:
            continue
        if whole and len(before) != len(after):
            return f"number of times that {what} were counted", str(len(before)), str(len(after))
        shown = min(len(before), len(after)) - (not whole)  # the last one may be cut
        for place in range(max(0, shown)):
            if before[place] != after[place]:
                return f"{what} (number {place + 1})", f"{before[place]:,}", f"{after[place]:,}"
    if not whole:
        return None
    for what, first, second in (
        ("calls for a batch", ours.batch_calls, theirs.batch_calls),
        ("indices of batches", ours.batch_indices, theirs.batch_indices),
        ("last learning rate", ours.learning_rate, theirs.learning_rate),
    ):
        if first is not None and second is not None and first != second:
            return what, _shown(first), _shown(second)
    return None


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def examples(run: RunResult) -> int | None:
    """Return the examples of a whole training; None if the batch size is unknown."""
    amounts = [
        None
        if (steps := fit.planned_steps) is None or not fit.batch_size
        else steps * fit.batch_size
        for fit in run.timed_fits
    ]
    return _sum(amounts)


def not_finite(runs: Sequence[RunResult]) -> str | None:
    """Return which metric of a run's last epoch is not finite, in words; None if all are.

    `val_auc is nan at the end of 2 of 8 runs`.
    """
    for name in dict.fromkeys(name for run in runs for fit in run.fits for name in fit.history):
        values = [last for run in runs if not math.isfinite(last := _last(run, name))]
        if values:
            return f"{name} is {values[0]} at the end of {len(values)} of {len(runs)} runs"
    return None


def _last(run: RunResult, name: str) -> float:
    """Return the metric's last value in the first fit where it is not finite; 0 if there is
    none."""
    values = [fit.history[name][-1] for fit in run.fits if fit.history.get(name)]
    return next((value for value in values if not math.isfinite(value)), 0.0)


def _epochs(run: RunResult) -> int | None:
    return _sum([fit.epochs if fit.complete else fit.planned_epochs for fit in run.timed_fits])


def _steps(run: RunResult) -> int | None:
    return _sum([fit.planned_steps for fit in run.timed_fits])


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
