"""XLA: the training step is compiled into fused kernels."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    RunContext,
    TrainingOptions,
    ValueHook,
    hookimpl,
    nested_layers,
    why_without,
)

# On a CPU convolutions become many times slower, and the plugins that time XLA find that out; what
# is dominated by starting kernels gains in any case.
DISPATCH_SHARE = 0.2


def blocking_layers(model: Any) -> tuple[str, ...]:
    """The names of the layers for which Keras turns XLA off, with a warning only."""
    return tuple(layer.name for layer in nested_layers(model) if not layer.supports_jit)


def why_not(replicas: int, options: TrainingOptions) -> str:
    """Why XLA is left alone, "" if it is not."""
    if replicas > 1:
        # TF 2.21 and Keras 3.15 raise InvalidArgumentError in the first step (keras#21366)
        return f"Keras cannot compile a step by XLA over {replicas} replicas"
    if options.jit_compile is True:
        return "the workload sets jit_compile itself"
    return ""


@attrs.frozen(kw_only=True, eq=False)
class Xla:
    """Compiles the training step by XLA.

    What it does: passes jit_compile=True to compile, where Keras' own choice is no XLA on a CPU
    and under a distribution strategy. It has no settings.

    Why it helps: XLA fuses operations, so that fewer kernels are started and less memory is read.

    When it does not: compiling costs seconds for each new input shape; convolutions on a CPU become
    many times slower; one layer without XLA support turns it off for the whole model. On a GPU
    Keras compiles by XLA on its own, so nothing is left to gain.

    Mixes with: mixed-precision, steps-per-execution. Not with mirrored: Keras fails there.

    Reference: https://openxla.org/xla/tf2xla
    """

    targets: ClassVar[tuple[str, ...]] = ("compute", "dispatch")

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it where Keras does not compile, could, and starting kernels takes its time."""
        if diagnosis.jit_compile or not diagnosis.supports_jit:
            return None
        if diagnosis.compared:
            # within a training; a loop of several steps a call brings its own XLA
            gains = any(loop.xla and loop.low > 1 for loop in diagnosis.loops)
            return {} if gains and diagnosis.batch_callbacks else None
        share = diagnosis.dispatch_seconds / diagnosis.step_seconds
        return {} if diagnosis.machine.gpus or share >= DISPATCH_SHARE else None

    def math(self) -> Literal["rounding"]:
        """Fused sums are taken in another order."""
        return "rounding"

    @hookimpl(wrapper=True)
    def configure_training(self, run: RunContext) -> ValueHook[TrainingOptions]:
        """Ask `compile` for XLA."""
        options = yield
        reason = run.state_of(self)["reason"] = why_not(run.replicas, options)
        return options if reason else attrs.evolve(options, jit_compile=True)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back whether Keras kept XLA on, or name the layer that blocks it."""
        if run.state_of(self).get("reason"):
            return Effect.not_applied(run.state_of(self)["reason"])
        if not model.jit_compile:
            if why_without("nested-layers"):
                return Effect.not_applied(f"Keras turned XLA off; {why_without('nested-layers')}")
            layers = [f'"{name}"' for name in blocking_layers(model)]
            if layers:
                named = ", ".join(layers[:3]) + (", ..." if layers[3:] else "")
                return Effect.not_applied(f"Keras turned XLA off: no support in layer {named}")
            return Effect.not_applied("Keras turned XLA off: jit_compile reads False")
        missing = why_without("xla-choice")
        if missing:
            return Effect.applied_as(f"model.jit_compile is True; {missing}")
        if model._resolve_auto_jit_compile():
            return Effect.not_applied(
                'Keras compiles this model by XLA anyway (jit_compile="auto")'
            )
        return Effect.applied_as("model.jit_compile is True")
