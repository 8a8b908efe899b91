"""Summarize the timings of a fit as the figures that are stored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from tfopt_core.recipe import TargetSpec
from tfopt_core.records.fit import TURN, FitFacts, FitOutcome
from tfopt_core.records.results import FitResult
from tfopt_core.statistics.intervals import median
from tfopt_core.statistics.timing.projection import Projection, mean_step, project


def summarize(outcome: FitOutcome, target: TargetSpec | None) -> FitResult:
    """Return the figures of one fit.

    :param target: the recipe's target, if it has one; the epochs and seconds to it are read from
        the history, at the ends of epochs.
    """
    facts = {field.name: getattr(outcome, field.name) for field in attrs.fields(FitFacts)}
    reached = epochs_to_target(outcome.history, target) if target else None
    mean = mean_step(outcome.blocks)
    step = None if mean is None else mean.seconds
    pieces = outcome.cut_short or any(block.in_turns for block in outcome.blocks)
    projection = project(outcome) if pieces else Projection(None)
    return FitResult(
        **facts,
        one_time_seconds=one_time_seconds(outcome, step),
        step_seconds=step,
        step_error=None if mean is None or mean.error == math.inf else mean.error,
        examples_per_second=_examples_per_second(outcome.batch_size, step),
        epochs_to_target=reached,
        seconds_to_target=_seconds_to(reached, outcome),
        # those of a training that was cut short compare with nothing
        metrics={
            name: values[-1] for name, values in outcome.history.items() if not outcome.cut_short
        },
        complete=not outcome.cut_short,
        projected_seconds=projection.seconds,
        why_not_projected=projection.why_not if outcome.cut_short else "",
        wall_seconds=outcome.wall_seconds if outcome.name else None,
    )


def one_time_seconds(outcome: FitOutcome, step_seconds: float | None) -> float:
    """Return the one-time cost: the build, and the time of cold blocks and of the first validation
    beyond the share of their steps. A fit of a single call has no such share."""
    step = step_seconds or 0.0
    cold = sum(b.seconds - b.steps * step for b in outcome.blocks if b.cold not in ("", TURN))
    first, *later = outcome.validation_seconds or (0.0,)
    validation = max(0.0, first - median(later)) if later else 0.0
    return outcome.setup_seconds + max(0.0, cold) + validation


def epochs_to_target(history: Mapping[str, Sequence[float]], target: TargetSpec) -> int | None:
    """Return the first epoch, counted from 1, whose metric meets the target; None if none does."""
    for epoch, value in enumerate(history.get(target.metric, []), start=1):
        if target.at_least is not None and value >= target.at_least:
            return epoch
        if target.at_most is not None and value <= target.at_most:
            return epoch
    return None


def _seconds_to(epoch: int | None, outcome: FitOutcome) -> float | None:
    """Return when this epoch ended; None for a resumed training, whose earlier time is unknown."""
    if epoch is None or outcome.resumed:
        return None
    return outcome.epoch_end_seconds[epoch - 1]


def _examples_per_second(batch_size: int | None, step_seconds: float | None) -> float | None:
    if batch_size is None or not step_seconds:
        return None
    return batch_size / step_seconds
