"""XLA: the training step is compiled into fused kernels, or is not."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Machine,
    Plugin,
    Probe,
    RunContext,
    RuntimeOptions,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import keras, nested_layers, why_without
from tfopt_runtime.loops import LEAST_GAIN

# On a CPU convolutions become many times slower, and the plugins that time XLA find that out; what
# is dominated by starting kernels gains in any case.
DISPATCH_SHARE = 0.2
CACHE_FLAG = "--tf_xla_persistent_cache_directory"


def why_not(replicas: int, options: TrainingOptions) -> str:
    """Why XLA is not switched on, "" if it is."""
    if replicas > 1:
        # TF 2.21 and Keras 3.15 raise InvalidArgumentError in the first step (keras#21366)
        return f"Keras cannot compile a step by XLA over {replicas} replicas"
    if options.jit_compile is True:
        return "XLA compiles the steps already (jit_compile)"
    return ""


def in_words(step_seconds: float) -> str:
    """Return the time of a step in milliseconds, which is infinite for one that failed."""
    return f"{1e3 * step_seconds:,.2f} ms" if math.isfinite(step_seconds) else "could not be timed"


def cache_folder(machine: Machine, environment: Mapping[str, str]) -> Path:
    """Return the folder of programs that XLA compiled, one for each TensorFlow and CPU, in the
    user's cache: XDG_CACHE_HOME, or ~/.cache where that is not an absolute path."""
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    cache = given if given.is_absolute() else Path.home() / ".cache"
    gpus = [(gpu.name, gpu.compute_capability) for gpu in machine.gpus]
    of_machine = f"{machine.cpu_model} {sorted(machine.cpu_flags)} {gpus}"
    digest = hashlib.blake2b(of_machine.encode(), digest_size=6).hexdigest()
    return cache / "tfopt" / "xla" / f"tensorflow-{metadata.version('tensorflow')}-{digest}"


@plugin
class Xla(Plugin):
    """Compiles the training step by XLA, or keeps Keras from doing so.

    What it does: passes jit_compile=True or False to compile. Keras' own choice is no XLA on a CPU
    and under a distribution strategy, else XLA where every layer supports it. The mode auto times
    both before the runs. With persistent_cache compiled programs are kept in the user's cache
    folder (XDG_CACHE_HOME or ~/.cache, below tfopt/xla), so that later processes load them.

    Why it helps: XLA fuses operations, so that fewer kernels are started and less memory is read.

    When it does not: compiling costs seconds for each new input shape; convolutions on a CPU become
    many times slower; one layer without XLA support turns it off for the whole model. On a GPU
    Keras compiles by XLA on its own: on gains nothing there, off may. With persistent_cache every
    run but the first of all starts faster, so a comparison holds no cost of compiling; the step is
    still traced. The folder is never emptied, and TensorFlow 2.21 prints "Error parsing
    text-format" for each program that it loads.

    Mixes with: mixed-precision, steps-per-execution. Not with mirrored: Keras fails there.

    Reference: https://openxla.org/xla/tf2xla
    """

    targets = ("compute", "dispatch")
    equivalence = "rounding"  # fused sums are taken in another order

    mode: Literal["on", "off", "auto"] = setting(
        default="on", help="Whether XLA compiles the step; auto times both."
    )
    persistent_cache: bool = setting(
        default=False, help="Whether compiled programs are kept for later processes."
    )

    def __attrs_post_init__(self) -> None:
        if self.persistent_cache and self.mode == "off":
            raise ValueError('persistent_cache needs mode = "on" or "auto": "off" compiles nothing')

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it where Keras does not compile, could, and starting kernels takes its time."""
        if diagnosis.jit_compile or not diagnosis.supports_jit:
            return None
        share = diagnosis.dispatch_seconds / diagnosis.step_seconds
        return {} if diagnosis.machine.gpus or share >= DISPATCH_SHARE else None

    def resolve(self, probe: Probe) -> Xla:
        """Time steps with XLA and without, in turns, where the mode is auto.

        Nothing is timed where Keras turns XLA off anyway.
        """
        if self.mode != "auto":
            return self
        still = attrs.evolve(self, mode="off", persistent_cache=False)
        compiling = attrs.evolve(still, mode="on")
        model = probe.model(compiling)
        if not model.jit_compile:
            probe.note(f"nothing was timed: {_why_off(model, probe.machine)}")
            return still
        plain, compiled = probe.step_seconds([still, compiling])
        probe.note(f"a step without XLA: {in_words(plain)}; with XLA: {in_words(compiled)}")
        if compiled < plain * (1 - LEAST_GAIN):
            return attrs.evolve(self, mode="on")
        return still

    @hookimpl
    def configure_runtime(self, machine: Machine, options: RuntimeOptions) -> RuntimeOptions:
        """Tell TensorFlow where compiled programs are kept."""
        if not self.persistent_cache:
            return options
        folder = cache_folder(machine, os.environ)
        folder.mkdir(parents=True, exist_ok=True)
        own = options.environment.get("TF_XLA_FLAGS", os.environ.get("TF_XLA_FLAGS")) or ""
        flags = f"{own} {CACHE_FLAG}={folder}".strip()
        return attrs.evolve(options, environment={**options.environment, "TF_XLA_FLAGS": flags})

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Ask `compile` for XLA, or for none."""
        state = run.state_of(self)
        if self.mode == "off":
            if options.jit_compile is False:
                state["reason"] = "the workload sets jit_compile=False itself"
            state["on_before"] = options.jit_compile is True
            return attrs.evolve(options, jit_compile=False)
        reason = state["reason"] = why_not(run.replicas, options)
        return options if reason else attrs.evolve(options, jit_compile=True)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back whether Keras kept XLA on, or name the layer that blocks it."""
        if run.state_of(self).get("reason"):
            return Effect.not_applied(run.state_of(self)["reason"])
        on = self.mode != "off"
        if bool(model.jit_compile) is not on:
            reason = _why_off(model, run.machine) if on else "model.jit_compile reads True"
            return Effect.not_applied(reason)
        done, missing = f"model.jit_compile is {on}", why_without("xla-choice")
        if missing:
            return Effect.applied_as(f"{done}; {missing}{self._kept()}")
        was_on = run.state_of(self).get("on_before", False)
        if not was_on and bool(model._resolve_auto_jit_compile()) is on:
            does = "compiles" if on else "does not compile"
            return Effect.not_applied(f'Keras {does} this model by XLA anyway (jit_compile="auto")')
        return Effect.applied_as(f"{done}{self._kept()}")

    def _kept(self) -> str:
        """What the folder of compiled programs holds, read back; "" where none are kept."""
        if not self.persistent_cache:
            return ""
        flags = os.environ.get("TF_XLA_FLAGS", "").split()
        folders = [flag.partition("=")[2] for flag in flags if flag.startswith(f"{CACHE_FLAG}=")]
        if not folders:
            return "; compiled programs are not kept: TensorFlow was started without the flag"
        folder = Path(folders[-1])
        return f"; {len(list(folder.glob('*.pb')))} compiled programs are kept in {folder}"

    def by_hand(self) -> str:
        """The same in plain code."""
        lines = [f"model.compile(optimizer, loss, jit_compile={self.mode != 'off'})"]
        if self.persistent_cache:
            flag = "--tf_xla_persistent_cache_directory=FOLDER"
            lines.insert(0, f'os.environ["TF_XLA_FLAGS"] = "{flag}"')
            lines.insert(0, "# before TensorFlow is imported")
        return "\n".join(lines)


def _why_off(model: Any, machine: Machine) -> str:
    """Why Keras turned XLA off for a model that asks for it."""
    if why_without("nested-layers"):
        return f"Keras turned XLA off; {why_without('nested-layers')}"
    layers = [layer for layer in nested_layers(model) if not layer.supports_jit]
    if not layers:
        return "Keras turned XLA off: jit_compile reads False"
    named = ", ".join(f'"{layer.name}"' for layer in layers[:3]) + (", ..." if layers[3:] else "")
    reason = f"Keras turned XLA off: no support in layer {named}"
    recurrent = keras.layers.LSTM, keras.layers.GRU
    if machine.gpus and any(isinstance(layer, recurrent) for layer in layers):
        reason += ", which cuDNN computes on a GPU, usually faster"
    return reason
