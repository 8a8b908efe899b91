"""Summarize the timings of a fit as the figures that are stored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cattrs import structure, unstructure

from tfopt_core.recipe import TargetSpec
from tfopt_core.records.fit import FitOutcome
from tfopt_core.records.results import Block, FitResult
from tfopt_core.statistics.intervals import median
from tfopt_core.statistics.timing.projection import Projection, mean_step, project
from tfopt_core.statistics.timing.steady import steady_state


def fit_message(
    outcome: FitOutcome, name: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a fit as plain data, and beside it its name if a run may have several."""
    named = {} if name is None else {"name": name, "wall_seconds": outcome.wall_seconds}
    return unstructure(outcome), named


def with_figures(run: Mapping[str, Any], target: TargetSpec | None) -> dict[str, Any]:
    """Return a run's message with the figures of its fits in place of their timings.

    The supervising process does this, since importing the search for change points takes a second.
    """
    message = dict(run)
    if "outcomes" in message:
        message["fits"] = [
            {**unstructure(summarize(structure(outcome, FitOutcome), target)), **named}
            for outcome, named in message.pop("outcomes")
        ]
    return message


def summarize(outcome: FitOutcome, target: TargetSpec | None) -> FitResult:
    """Return the figures of one fit.

    :param target: the recipe's target, if it has one; the epochs and seconds to it are read from
        the history, at the ends of epochs.
    """
    blocks = tuple(Block(b.steps, b.seconds, b.epoch, b.cold) for b in outcome.blocks)
    steady = steady_state(blocks)
    reached = epochs_to_target(outcome.history, target) if target else None
    one_time = one_time_seconds(outcome, blocks, steady.step_seconds)
    mean = mean_step(outcome.blocks)
    projection = project(outcome) if outcome.cut_short else Projection(None)
    return FitResult(
        one_time_seconds=one_time,
        blocks=blocks,
        steady=steady.steady,
        step_seconds=steady.step_seconds,
        mean_step_seconds=None if mean is None else mean.seconds,
        mean_step_error=None if mean is None or mean.error == math.inf else mean.error,
        examples_per_second=_examples_per_second(outcome.batch_size, steady.step_seconds),
        trainable_parameters=outcome.trainable_parameters,
        epochs=outcome.epochs,
        steps=outcome.steps,
        planned_epochs=outcome.planned_epochs,
        steps_per_epoch=outcome.steps_per_epoch,
        batch_size=outcome.batch_size,
        epochs_to_target=reached,
        seconds_to_target=_seconds_to(reached, outcome),
        jit_compile=outcome.jit_compile,
        # metrics of a training that was cut short cannot be compared
        metrics={
            name: values[-1] for name, values in outcome.history.items() if not outcome.cut_short
        },
        history={name: tuple(values) for name, values in outcome.history.items()},
        stop_reason=outcome.stop_reason,
        complete=not outcome.cut_short,
        projected_seconds=projection.seconds,
        why_not_projected=projection.why_not,
        replicas=outcome.replicas,
        workers=outcome.workers,
        communication_step_seconds=outcome.communication_step_seconds,
        cluster_seconds=outcome.cluster_seconds,
    )


def one_time_seconds(
    outcome: FitOutcome, blocks: Sequence[Block], step_seconds: float | None
) -> float:
    """Return the one-time cost: the build, and what cold blocks and the first validation take more.
    A fit that holds nothing but its first call has no steady step to compare with."""
    step = step_seconds or 0.0
    cold = sum(b.seconds - b.steps * step for b in blocks if b.cold)
    first, *later = outcome.validation_seconds or (0.0,)
    validation = max(0.0, first - median(later)) if later else 0.0
    return outcome.setup_seconds + max(0.0, cold) + validation


def epochs_to_target(history: dict[str, list[float]], target: TargetSpec) -> int | None:
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
