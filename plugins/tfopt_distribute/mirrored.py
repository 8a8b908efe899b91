"""Mirrored: one machine's GPUs train together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar, Literal

import attrs
from attrs import field, validators

from tfopt_core import Effect, PluginRefused, RunContext, RuntimeOptions, hookimpl


def choose_devices(
    asked: Sequence[str], logical_cpu_devices: int | None, gpus: int
) -> tuple[str, ...]:
    """The devices to mirror over: those asked for, else the logical CPUs, else all GPUs.

    :raises PluginRefused: if there are fewer than two.
    """
    if asked:
        devices = tuple(asked)
    elif logical_cpu_devices is not None:
        devices = tuple(f"/cpu:{index}" for index in range(logical_cpu_devices))
    else:
        devices = tuple(f"/gpu:{index}" for index in range(gpus))
    if len(set(devices)) < 2:
        found = f"only {devices[0]}" if devices else "no GPU"
        raise PluginRefused(
            f"mirroring needs two devices, and there is {found}; to try it without GPUs set "
            "logical_cpu_devices = 2"
        )
    return devices


@attrs.frozen(kw_only=True, eq=False)
class Mirrored:
    """Trains one model on several GPUs of this machine, each on its share of the batch.

    What it does: trains under MirroredStrategy. Each device holds a copy of the model and takes
    its share of the global batch; the gradients are summed over all.

    Why it helps: the devices compute at the same time.

    When it does not: where a device's share is too small to fill it, so that summing the gradients
    costs more than is saved. Logical CPU devices are for trying it out: they share the same cores.

    Mixes with: mixed-precision, prefetch; raise the batch size with the devices. Keras cannot use
    XLA there, which on GPUs is on otherwise.

    Reference: https://www.tensorflow.org/guide/distributed_training#mirroredstrategy
    """

    targets: ClassVar[tuple[str, ...]] = ("compute", "communication")
    role: ClassVar[str] = "optimization"
    model_change: ClassVar[str] = "none"
    requires: ClassVar[tuple[str, ...]] = ()
    conflicts: ClassVar[tuple[str, ...]] = ("one-device",)
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    devices: tuple[str, ...] = field(
        default=(),
        converter=tuple,
        metadata={"help": "Devices to train on, as /gpu:0; empty for all GPUs of this machine."},
    )
    logical_cpu_devices: int | None = field(
        default=None,
        validator=validators.optional(validators.ge(2)),
        metadata={"help": "Into how many devices the CPU is split, at least 2, to try it there."},
    )

    def math(self) -> Literal["rounding"]:
        """The same batch, its gradients summed in parts."""
        return "rounding"

    @hookimpl(wrapper=True)
    def configure_runtime(self) -> Generator[None, RuntimeOptions, RuntimeOptions]:
        """Split the CPU where that is asked for."""
        options = yield
        if self.logical_cpu_devices is None:
            return options
        return attrs.evolve(options, logical_cpu_devices=self.logical_cpu_devices)

    @hookimpl
    def build_strategy(self, run: RunContext) -> Any:
        """A MirroredStrategy over at least two devices.

        :raises PluginRefused: if there are fewer, or one of them does not exist.
        """
        import tensorflow as tf

        there = {
            logical.name.removeprefix("/device:").lower()
            for logical in tf.config.list_logical_devices()
        }
        gpus = sum(name.startswith("gpu") for name in there)
        devices = choose_devices(self.devices, self.logical_cpu_devices, gpus)
        for device in devices:
            if device.lower().removeprefix("/").removeprefix("device:") not in there:
                raise PluginRefused(
                    f'there is no device "{device}"; TensorFlow sees {", ".join(sorted(there))}'
                )
        return tf.distribute.MirroredStrategy(list(devices))

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the number of replicas back."""
        replicas = run.strategy.num_replicas_in_sync
        devices = ", ".join(
            device.rpartition("device:")[2] for device in run.strategy.extended.worker_devices
        )
        if replicas < 2:
            return Effect.not_applied(f"the strategy has one replica, on {devices}")
        return Effect.applied_as(f"{replicas} replicas, on {devices}")
