"""Decide which exact loops a built training can switch to, and why not to others."""

from __future__ import annotations

import math

from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import batch_callbacks
from tfopt_core.training.graphs.operations import supports_xla
from tfopt_core.training.loops.exact_loops import Loop, Offer
from tfopt_core.training.loops.train_functions import loop_of, why_only_keras
from tfopt_core.training.timing.clock import BLOCK_STEPS

# More than 64 steps a call gain nothing: dispatch costs about 0.3 ms a call.
FACTORS, LARGEST = (4, 16, 64), 64
# The most bytes of batches that are held back for the first call of a loop, which may fail.
HELD_BYTES = 512 * 2**20
# An epoch must hold this many calls, or no block would fit between its edges.
CALLS_AN_EPOCH = 4


def offer_loops(built: Built) -> Offer:
    """Return which loops can be compared while this training runs. Builds and traces nothing."""
    run, reference = built.run, loop_of(built)
    reason = nothing_to_adapt(built)
    if reason:
        return Offer(reference=reference, left_out=(f"nothing to adapt: {reason}",))
    steps, why_not_steps = _steps(built, reference)
    other, why_not_xla = _other_jit_compile(built, reference)
    return Offer(
        reference=reference,
        steps=steps,
        other_jit_compile=other,
        total_steps=None if run.steps_per_epoch is None else run.steps_per_epoch * run.epochs,
        left_out=tuple(reason for reason in (why_not_steps, why_not_xla) if reason),
    )


def nothing_to_adapt(built: Built) -> str:
    """Return why the loop cannot be replaced; empty if it can."""
    model, run = built.model, built.run
    reason = why_only_keras(model, run.replicas)
    if reason:
        return reason
    if model.train_function is not None:
        return "the model has a train function of its own"
    if loop_of(built).kind == "resident":
        return "the loop is resident, with its steps and XLA as the stack asks for them"
    if run.steps_per_epoch is not None and run.steps_per_epoch < 2 * BLOCK_STEPS:
        return (
            f"an epoch has {run.steps_per_epoch} steps, and it takes {2 * BLOCK_STEPS} to time a "
            "block in it"
        )
    return ""


def _batch_bytes(built: Built) -> int:
    """Return the bytes of a batch in memory; unknown sizes, except the batch size, count as 1."""
    import tensorflow as tf

    total = 0
    for spec in tf.nest.flatten(built.run.element_spec):
        shape = getattr(spec, "shape", None)
        if shape is None or shape.rank is None:
            continue
        sizes = [size or 1 for size in shape]
        if sizes and shape[0] is None:
            sizes[0] = built.run.batch_size or 1
        total += math.prod(sizes) * spec.dtype.size
    return total


def _steps(built: Built, reference: Loop) -> tuple[tuple[int, ...], str]:
    """Return multiples of the stack's steps a call, by which `fit` counts, or else why there are
    none."""
    steps_per_epoch = built.run.steps_per_epoch
    if steps_per_epoch is None:
        return (), "several steps a call not tried: the number of steps in an epoch is unknown"
    names = batch_callbacks(built.training.callbacks)
    if names:
        return (), f"several steps a call not tried: the callback {names[0]} acts on every batch"
    largest = min(LARGEST, steps_per_epoch // CALLS_AN_EPOCH)
    steps = tuple(f * reference.steps for f in FACTORS if f * reference.steps <= largest)
    batch_bytes = _batch_bytes(built)
    fitting = tuple(count for count in steps if count * batch_bytes <= HELD_BYTES)
    if steps and not fitting:
        return (), (
            f"more steps a call not tried: the {steps[0]} batches of a first call are held in "
            f"memory, and would take {steps[0] * batch_bytes / 2**20:,.0f} MiB"
        )
    steps = fitting
    if not steps:
        return (), (
            f"more steps a call not tried: {FACTORS[0] * reference.steps} would not fit "
            f"{CALLS_AN_EPOCH} times into an epoch of {steps_per_epoch}"
            if largest < LARGEST
            else f"more steps a call not tried: {reference.steps} leave nothing to gain"
        )
    return steps, ""


def _other_jit_compile(built: Built, reference: Loop) -> tuple[bool, str]:
    """Return whether the opposite of Keras' choice of XLA can be compared, or else why not."""
    if built.training.jit_compile != "auto":
        return False, ""  # the stack sets it explicitly
    if reference.jit_compile:
        return True, ""
    if not supports_xla(built.model):
        return False, "XLA not tried: the model has a layer without XLA support, or cannot use it"
    return True, ""
