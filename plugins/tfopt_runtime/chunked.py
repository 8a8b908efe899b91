"""Chunked: many steps in one call, compiled by XLA as a whole where that is faster."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Plugin,
    Probe,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
)
from tfopt_core.toolkit import number_or
from tfopt_runtime.loops import (
    LEAST_GAIN,
    allowed_xla,
    candidates,
    loop_effect,
    smallest_good,
    why_compiled,
    why_not,
    with_xla,
    without_xla,
    worth_a_loop,
    xla_setting,
)

Times = Callable[[list[tuple[int, bool]]], list[float]]


def choose(
    seconds: Times, steps: int | str, xla: bool | str, steps_per_epoch: int | None
) -> tuple[int, bool]:
    """Steps a call and XLA: of those left open, the fewest steps within 3 % of the fastest.

    XLA is timed with as many steps as do best without it, and with as many as there may be.

    :param seconds: times loops, each of so many steps a call and with XLA or not, in turns.
    :param steps: "auto", or those that are wanted.
    :param xla: "auto", or whether it is wanted.
    """
    sizes = candidates(steps_per_epoch) if isinstance(steps, str) else (steps,)
    if xla is True or xla is False:
        if len(sizes) == 1:
            return sizes[0], xla
        return smallest_good(_by_steps(seconds, sizes, xla)), xla
    plain = sizes[0]
    if len(sizes) > 1:
        plain = smallest_good(_by_steps(seconds, sizes, False))
    largest = max(plain, sizes[-1])
    # the smaller one comes first: where XLA is many times slower, a large chunk would take ages
    without, compiled = seconds([(plain, False), (plain, True)])
    if largest > plain and compiled < 2 * without:
        without, compiled, larger = seconds([(plain, False), (plain, True), (largest, True)])
        if larger < compiled * (1 - LEAST_GAIN):
            return (largest, True) if larger < without * (1 - LEAST_GAIN) else (plain, False)
    return plain, compiled < without * (1 - LEAST_GAIN)


def _by_steps(seconds: Times, sizes: tuple[int, ...], xla: bool) -> dict[int, float]:
    taken = dict(zip(sizes, seconds([(steps, xla) for steps in sizes]), strict=True))
    return {steps: time for steps, time in taken.items() if time < math.inf} or {sizes[0]: 0.0}


@plugin
class Chunked(Plugin):
    """Makes many training steps in one call, which XLA may compile as a whole.

    What it does: replaces Keras' train function by a loop in one graph, under Keras' own fit. With
    XLA the batches of a chunk are stacked first, and one compiled function makes all its steps.

    Why it helps: starting a step from Python costs about half a millisecond, and starting its
    kernels as much again; a compiled loop starts neither. Small models train several times faster.

    When it does not: steps of tens of milliseconds. Convolutions compiled by XLA are many times
    slower on a CPU; auto times both. The first call takes seconds. A callback that acts on every
    batch would be called every so many steps only: then nothing is changed.

    Mixes with: prefetch, parallel-map, mixed-precision. Where XLA compiles the steps already (by
    the plugin xla, by jit_compile=True, or by Keras itself on a GPU), with xla = true only: a loop
    without it would round otherwise. Dropout draws other random numbers under XLA. A training that
    stops within an epoch stops at the end of a chunk. Where batches are ragged, hold text or are of
    unknown size, XLA compiles single steps. Not with mirrored: Keras fails there, so nothing is
    changed.

    Reference: https://openxla.org/xla/tf2xla
    """

    targets = ("dispatch", "compute")
    conflicts = ("steps-per-execution", "resident")

    steps: int | Literal["auto"] = number_or(
        "auto", "Training steps in one call, at least 1; auto times 1, 4, 16 and 64."
    )
    xla: bool | Literal["auto"] = xla_setting("a chunk")

    def equivalence(self) -> Literal["exact", "rounding"]:
        """The same steps; under XLA fused sums are taken in another order."""
        return "exact" if self.xla is False else "rounding"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it where steps wait for dispatch, or XLA may compile them."""
        if not worth_a_loop(diagnosis, self.targets):
            return None
        return {"xla": False} if without_xla(diagnosis) else {}

    def resolve(self, probe: Probe) -> Chunked:
        """Time steps a call and XLA, in turns."""
        if "auto" not in (self.steps, self.xla):
            return self

        def seconds(loops: list[tuple[int, bool]]) -> list[float]:
            return probe.step_seconds(
                [attrs.evolve(self, steps=steps, xla=xla) for steps, xla in loops]
            )

        asked = allowed_xla(self.xla, probe)
        steps, xla = choose(seconds, self.steps, asked, probe.steps_per_epoch)
        return attrs.evolve(self, steps=steps, xla=xla)

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Set the loop, its steps and XLA, unless a callback needs each step."""
        reason = why_not(run.replicas, options.callbacks) or why_compiled(
            options, self.xla, run.machine
        )
        run.state_of(self)["reason"] = reason
        if reason or self.steps == "auto":
            return options
        jit_compile = with_xla(options, self.xla)
        if self.steps == 1 and jit_compile is not True:
            run.state_of(self)["reason"] = "1 step a call without XLA, as without it"
            return options
        return attrs.evolve(
            options, loop="chunked", steps_per_execution=self.steps, jit_compile=jit_compile
        )

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back from the train function how many steps its calls made, and how."""
        reason = run.state_of(self).get("reason", "")
        return loop_effect(reason, model, "chunked", self.xla, "no chunk was trained on")

    def by_hand(self) -> str:
        """The same in plain code."""
        steps = 16 if isinstance(self.steps, str) else self.steps
        return (
            "# the loop is tfopt's own; this is the nearest that Keras has\n"
            f"model.compile(optimizer, loss, steps_per_execution={steps}, "
            f"jit_compile={self.xla is True})"
        )
