"""The figures of a fit from its timed steps, whole or cut short (docs/guide/measuring.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

import attrs

from tfopt_core.recipe.model import TargetSpec
from tfopt_core.statistics.runs import FitResult, RunResult
from tfopt_core.training.messages import TURN, Block, FitFacts, FitOutcome, StepTrace, TraceCause


def summarize(outcome: FitOutcome, target: TargetSpec | None) -> FitResult:
    """Return the figures of one fit.

    :param target: the recipe's target, if it has one; the epochs and seconds to it are read from
        the history, at the ends of epochs.
    """
    facts = {field.name: getattr(outcome, field.name) for field in attrs.fields(FitFacts)}
    reached = epochs_to_target(outcome.history, target) if target else None
    step = mean_step(outcome.blocks)
    pieces = outcome.cut_short or any(block.in_turns for block in outcome.blocks)
    projected = project(outcome) if pieces else ""
    return FitResult(
        **facts,
        one_time_seconds=one_time_seconds(outcome, step),
        step_seconds=step,
        examples_per_second=outcome.batch_size / step if outcome.batch_size and step else None,
        epochs_to_target=reached,
        # of a resumed training the earlier time is unknown
        seconds_to_target=None
        if reached is None or outcome.resumed
        else outcome.epoch_end_seconds[reached - 1],
        # those of a training that was cut short compare with nothing
        metrics={
            name: values[-1] for name, values in outcome.history.items() if not outcome.cut_short
        },
        complete=not outcome.cut_short,
        projected_seconds=projected if isinstance(projected, float) else None,
        why_not_projected=projected if isinstance(projected, str) and outcome.cut_short else "",
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


# So many shapes are named.
SHOWN = 4
MENDS: dict[TraceCause, str] = {
    "shapes": "pad batches to few shapes, or leave the changing axis None in the signature",
    "python": "keep what changes in a tf.Variable, and build the train function once",
}


def retraces(traces: Iterable[StepTrace]) -> Iterator[tuple[str, str]]:
    """Yield how often a step was traced after the first one, in words, and what avoids it, for each
    cause.

    Those of tfopt's own loops are no fault of the training, and left out.
    """
    every = list(traces)
    for cause, mend in MENDS.items():
        alike = [trace for trace in every if trace.cause == cause]
        if not alike:
            continue
        shapes = list(dict.fromkeys(trace.shapes for trace in alike))
        listed = "; ".join(shapes[:SHOWN]) + ("; ..." if len(shapes) > SHOWN else "")
        times = "once" if len(alike) == 1 else f"{len(alike):,} times"
        why = f"for new shapes: {listed}"
        if cause == "python":
            why = "for the same shapes: a Python value or the train function changed"
        yield f"{times} {why}", mend


def retraced_runs(runs: Sequence[RunResult]) -> list[str]:
    """Return a warning for each variant and cause, about the run that was traced most often."""
    warnings = []
    for variant in dict.fromkeys(run.variant for run in runs):
        fits = [fit for run in runs if run.variant == variant for fit in run.timed_fits]
        most = max((fit.traces for fit in fits), key=len, default=())
        warnings += [
            f'in a run of "{variant}" the step was traced again {times}; {mend}'
            for times, mend in retraces(most)
        ]
    return warnings


UNKNOWN_STEPS = "the number of steps of an epoch is not known"
NO_STEP = "no step was timed that is not part of the start-up"
NO_EDGE = "too few epochs began to tell what a start costs"
# Of fewer starts nothing is projected: one may wait as long as the epoch itself, and the next one
# not at all (docs/decisions/0014).
LEAST_STARTS = 4


def mean_step(blocks: Sequence[Block]) -> float | None:
    """Return the mean seconds of a step over the warm blocks, of a run that took turns over those
    in turns.

    A mean, not a median: stalls are part of a training's time. The first block of a later epoch is
    left out, since it holds the cost of the epoch's start, such as filling a shuffle buffer again.
    If every block is the first of its epoch, all count.

    :returns: None without a warm block.
    """
    ordinary = [block for block in _split_at_epochs(blocks)[1] if not block.cold]
    warm = ordinary or [block for block in blocks if not block.cold]
    warm = [block for block in warm if block.in_turns] or warm
    steps = sum(block.steps for block in warm)
    if not steps:
        return None
    return math.fsum(block.seconds for block in warm) / steps


def project(outcome: FitOutcome) -> float | str:
    """Return the wall time of the whole training from its pieces, or why it is unknown.

    What is traced and fills a cache counts as it was observed, and all other steps at the mean
    step; so do the starts of epochs, what callbacks do at their ends, and validations. A run that
    was cut short needs some observed starts.
    """
    epochs, an_epoch = outcome.planned_epochs, outcome.steps_per_epoch
    if not outcome.cut_short:
        epochs = len(outcome.epoch_end_seconds)
    if an_epoch is None:
        # the first epoch may have counted them
        of_first = [block for block in outcome.blocks if block.epoch == outcome.blocks[0].epoch]
        if len(of_first) == len(outcome.blocks):
            return UNKNOWN_STEPS
        an_epoch = sum(block.steps for block in of_first)
    step = mean_step(outcome.blocks)
    if step is None:
        return NO_STEP
    later, _ = _split_at_epochs(outcome.blocks)
    starts = [block for block in later if not block.cold]
    wanted = LEAST_STARTS if outcome.cut_short else 1
    if len(starts) < min(wanted, epochs - 1):
        return NO_EDGE
    observed = [block for block in outcome.blocks if block.cold not in ("", TURN)]
    steps = epochs * an_epoch if outcome.cut_short else outcome.steps
    left = (steps - sum(block.steps for block in observed)) * step
    # the time of an epoch's first block beyond its steps
    of_starts = [block.seconds - block.steps * step for block in starts]
    cold_starts = [block for block in later if block.cold not in ("", TURN)]
    left += (epochs - 1 - len(cold_starts)) * _mean(of_starts)
    # callbacks also act at the end of the last epoch
    left += epochs * _mean(outcome.edge_seconds)
    seconds = outcome.setup_seconds + math.fsum(block.seconds for block in observed) + left
    return seconds + _validations(outcome, epochs)


def _split_at_epochs(blocks: Sequence[Block]) -> tuple[list[Block], list[Block]]:
    """Return the first block of each later epoch, where the number changes, and the other ones."""
    firsts, others = list[Block](), list(blocks[:1])
    for before, block in pairwise(blocks):
        (others if before.epoch == block.epoch else firsts).append(block)
    return firsts, others


def _validations(outcome: FitOutcome, epochs: int) -> float:
    """Return the seconds of all validations: the first traces, the others take the mean."""
    if not outcome.cut_short:
        return math.fsum(outcome.validation_seconds)
    first, *later = outcome.validation_seconds or (0.0,)
    return first + (epochs - 1) * (_mean(later) if later else first)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
