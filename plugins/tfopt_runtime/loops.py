"""What the training loops have in common: their settings, when to leave them alone, and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfopt_core.plugins import Diagnosis, Effect, Machine, Probe, TrainingOptions, setting
from tfopt_core.toolkit import batch_callbacks, loop_report

# Past 64 steps a call nothing is left to gain: a call costs some 0.5 ms.
CANDIDATES = (1, 4, 16, 64)
# Starting a step takes milliseconds: of a slower one that is nothing, and trying it takes minutes.
SLOW_STEP_SECONDS = 1.0
# A smaller gain is not worth coarser callbacks and a longer first call, and drowns in noise.
LEAST_GAIN = 0.03


def xla_setting(what: str) -> Any:
    """Return the setting `xla`: whether XLA compiles this as a whole."""
    help = f"Whether XLA compiles {what} as a whole; auto times both."
    return setting(default="auto", help=help)


def allowed_xla(xla: bool | Literal["auto"], probe: Probe) -> bool | Literal["auto"]:
    """Return the setting; False for "auto" where another plugin of the stack conflicts with XLA."""
    against = probe.conflicts.get("xla")
    if xla != "auto" or against is None:
        return xla
    probe.note(f'XLA was not timed: "{against}" conflicts with it')
    return False


def without_xla(diagnosis: Diagnosis) -> bool:
    """Whether a loop is suggested without XLA: it would round differently, or compile nothing."""
    return diagnosis.exact or not (diagnosis.supports_jit or diagnosis.jit_compile)


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
    """Why a loop of several steps a call is out of the question, "" if it is not.

    :param replicas: 1 for steps that the loop over replicas makes too.
    """
    if replicas > 1:
        return f"its loop is for one device, and the training has {replicas} replicas"
    names = batch_callbacks(callbacks)
    return f"the callback {names[0]} acts on every batch" if names else ""


def why_compiled(options: TrainingOptions, xla: bool | str, machine: Machine) -> str:
    """Why a loop that is asked for without XLA is out of the question, "" if it is not.

    Keras' "auto" has XLA compile the steps on a GPU.
    """
    compiled = options.jit_compile is True or (options.jit_compile == "auto" and machine.gpus)
    if xla is not False or not compiled:
        return ""
    return (
        "XLA compiles the steps already (jit_compile); it would compile the loop as a whole, which "
        "may round otherwise; allow that by xla = true"
    )


def with_xla(options: TrainingOptions, xla: bool | str) -> bool | str:
    """What `jit_compile` becomes; what the stack has asked for by name stays."""
    return xla if options.jit_compile == "auto" else options.jit_compile


def made_in_words(report: Any) -> str:
    """What a loop made: `64 steps a call, compiled whole by XLA: 1,250 steps in 20 calls`."""
    words = f"{report.steps_per_call:,} step{'s' * (report.steps_per_call != 1)} a call"
    if report.compiled_steps:
        words += ", compiled whole by XLA"
    elif report.why_not_whole:
        words += f", XLA compiled single steps only: {report.why_not_whole}"
    calls = f"{report.calls:,} call{'s' * (report.calls != 1)}"
    return f"{words}: {report.steps:,} steps in {calls}"


def loop_effect(reason: str, model: Any, kind: str, xla: bool | str, nothing_done: str) -> Effect:
    """Return what the loop made, read back from the train function.

    :param reason: why the plugin set no loop, "" if it did.
    :param kind: of the loop, as `TrainingOptions.loop` has it.
    :param xla: what was asked for; it is said where XLA had no part in it.
    :param nothing_done: the reason where another loop trained, or this one made no step.
    """
    report = loop_report(model)
    reason = reason or report.why_not
    if reason:
        return Effect.not_applied(reason)
    if report.kind != kind or not report.steps:
        return Effect.not_applied(nothing_done)
    if xla is not True or report.compiled_steps or report.why_not_whole:
        return Effect.applied_as(made_in_words(report))
    if not model.jit_compile:
        why = (
            "XLA is off: Keras turned it off for a layer that does not support it, or a plugin "
            "behind this one did"
        )
    else:
        why = "no two batches in a row had the size that XLA compiled for"
    return Effect.applied_as(f"{made_in_words(report)}; {why}")


def computes_for_seconds(diagnosis: Diagnosis) -> bool:
    """Whether a step takes seconds that it does not wait for input: starting it is nothing then."""
    waits = diagnosis.bound(("input",)) >= 1 + LEAST_GAIN
    return diagnosis.step_seconds > SLOW_STEP_SECONDS and not waits


def worth_a_loop(diagnosis: Diagnosis, targets: Sequence[str]) -> bool:
    """Whether steps spend enough on what a loop takes away, or XLA may make them faster."""
    if diagnosis.batch_callbacks:
        return False
    if diagnosis.exact and diagnosis.jit_compile:
        return False  # a loop with its own XLA, or without any, rounds otherwise
    if diagnosis.exact and computes_for_seconds(diagnosis):
        return False
    overheads = [part for part in targets if part != "compute"]
    may_compile = diagnosis.supports_jit and not diagnosis.jit_compile and not diagnosis.exact
    return may_compile or diagnosis.bound(overheads) >= 1 + LEAST_GAIN
