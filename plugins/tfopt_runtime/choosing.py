"""What the loops of this folder have in common: when to leave them alone, and how to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfopt_core import (
    EVERY_BATCH,
    ComparedLoop,
    Diagnosis,
    LoopReport,
    TrainingOptions,
    batch_callbacks,
)

# Past 64 steps a call nothing is left to gain: a call costs some 0.5 ms.
CANDIDATES = (1, 4, 16, 64)
# A smaller gain is not worth coarser callbacks and a longer first call, and drowns in noise.
LEAST_GAIN = 0.03


def candidates(steps_per_epoch: int | None) -> tuple[int, ...]:
    """The steps a call that are worth timing; no more than an epoch has."""
    return tuple(steps for steps in CANDIDATES if steps <= (steps_per_epoch or CANDIDATES[-1]))


def smallest_good(seconds: Mapping[int, float]) -> int:
    """The fewest steps a call whose step takes at most 3 % longer than the fastest.

    :param seconds: of a step, by the steps of a call.
    """
    limit = min(seconds.values()) * (1 + LEAST_GAIN)
    return min(steps for steps, taken in seconds.items() if taken <= limit)


def why_not(replicas: int, callbacks: Sequence[Any]) -> str:
    """Why several steps a call are out of the question, "" if they are not."""
    if replicas > 1:
        # TF 2.21 and Keras 3.15 raise InvalidArgumentError in the first call
        return f"Keras cannot run several steps a call over {replicas} replicas"
    names = batch_callbacks(callbacks, EVERY_BATCH)
    return f"the callback {names[0]} acts on every batch" if names else ""


def with_xla(options: TrainingOptions, xla: bool | str) -> bool | str:
    """What `jit_compile` becomes; what the stack has asked for by name stays."""
    return xla if options.jit_compile == "auto" else options.jit_compile


def with_missing_xla(report: LoopReport, model: Any, xla: bool | str) -> str:
    """Return what the loop made, and why XLA compiled nothing though the plugin asked for it."""
    if xla is not True or report.compiled_steps or report.why_not_whole:
        return report.in_words
    if not model.jit_compile:
        return f"{report.in_words}; Keras turned XLA off: some layer does not support it"
    return f"{report.in_words}; no two batches in a row had the size that XLA compiled for"


def best_compared(diagnosis: Diagnosis) -> ComparedLoop | None:
    """Of the loops that were compared with Keras' own, the one that is surely faster by most; None
    if none is."""
    gaining = [loop for loop in diagnosis.loops if loop.low >= 1 + LEAST_GAIN]
    return max(gaining, key=lambda loop: loop.low, default=None)


def worth_a_loop(diagnosis: Diagnosis, targets: Sequence[str]) -> bool:
    """Whether steps spend enough on what a loop takes away, or XLA may make them faster."""
    if diagnosis.batch_callbacks:
        return False
    if diagnosis.loops:
        return best_compared(diagnosis) is not None
    overheads = [part for part in targets if part != "compute"]
    compiles = not diagnosis.compared and diagnosis.supports_jit and not diagnosis.jit_compile
    return compiles or diagnosis.bound(overheads) >= 1 + LEAST_GAIN
