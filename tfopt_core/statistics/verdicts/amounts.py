"""Check that both sides of the pairs trained equally long and ended with finite metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.results import RunResult
from tfopt_core.statistics.figures import planned_steps
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
    return None


def examples(run: RunResult) -> int | None:
    """Return the examples of a whole training; None if the batch size is unknown."""
    amounts = [
        None
        if (steps := planned_steps(fit)) is None or not fit.batch_size
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
    return _sum([planned_steps(fit) for fit in run.timed_fits])


def _sum(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
