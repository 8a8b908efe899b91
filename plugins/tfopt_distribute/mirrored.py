"""Mirrored: one machine's GPUs train together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Effect,
    PluginRefused,
    RunContext,
    RuntimeOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import tf, why_without
from tfopt_distribute.strategy_settings import (
    IN_SCOPE,
    ReplicaStrategy,
    check_devices,
    logical_devices,
    others,
)

Communication = Literal["auto", "nccl", "hierarchical", "reduce-to-one"]
# What TensorFlow calls them.
OPERATIONS = {
    "nccl": "NcclAllReduce",
    "hierarchical": "HierarchicalCopyAllReduce",
    "reduce-to-one": "ReductionToOneDevice",
}
# Which of them send gradients in packs.
PACKING = ("nccl", "hierarchical")


def choose_devices(
    asked: Sequence[str], logical_cpu_devices: int | None, gpus: int
) -> tuple[str, ...]:
    """The devices to mirror over: those asked for, else the logical CPUs, else all GPUs.

    :raises PluginRefused: if there are none.
    """
    if asked:
        devices = tuple(asked)
    elif logical_cpu_devices is not None:
        devices = tuple(f"/cpu:{index}" for index in range(logical_cpu_devices))
    else:
        devices = tuple(f"/gpu:{index}" for index in range(gpus))
    if not devices:
        raise PluginRefused(
            "mirroring needs a GPU, and there is none; to try it without set "
            "logical_cpu_devices = 2"
        )
    return devices


def check_communication(communication: Communication, devices: Sequence[str]) -> None:
    """:raises PluginRefused: for NCCL over devices that are no GPUs."""
    if communication == "nccl" and not all("gpu" in device.lower() for device in devices):
        raise PluginRefused(
            f'communication = "nccl" is for GPUs, and the devices are {", ".join(devices)}; set '
            'it to "auto"'
        )


def cross_device_ops(communication: Communication, packs: int) -> Any:
    """Return the `tf.distribute.CrossDeviceOps` that sums gradients, None for TensorFlow's own."""
    if communication == "auto":
        return None
    operations = getattr(tf.distribute, OPERATIONS[communication])
    return operations(num_packs=packs) if communication in PACKING else operations()


@plugin
class Mirrored(ReplicaStrategy):
    """Trains one model on several GPUs of this machine, each on its share of the batch.

    What it does: trains under MirroredStrategy. Each device holds a copy of the model and takes
    its share of the global batch; the gradients are summed over all. One GPU is allowed, as the
    baseline for several.

    Why it helps: the devices compute at the same time.

    When it does not: where a device's share is too small to fill it, so that summing the gradients
    costs more than is saved. Logical CPU devices are for trying it out: they share the same cores.
    Batch normalization sees a device's share only. Several GPUs: not run on hardware yet.

    Mixes with: mixed-precision, prefetch; steps-per-execution runs several steps a call. XLA fails
    over replicas, so it is off there, which on GPUs is on otherwise. A batch that is larger by
    batch_size = "per-replica" needs another learning rate, see learning_rate; lr-schedule stands
    behind it.

    Reference: https://www.tensorflow.org/guide/distributed_training#mirroredstrategy
    """

    targets = ("compute", "communication")
    conflicts = others("mirrored")

    devices: tuple[str, ...] = setting(
        default=(),
        converter=tuple,
        help="Devices to train on, as /gpu:0; empty for all GPUs of this machine.",
    )
    logical_cpu_devices: int | None = setting(
        default=None,
        validator=validators.optional(validators.ge(2)),
        help="Into how many devices the CPU is split, at least 2, to try it there.",
    )

    communication: Communication = setting(
        default="auto",
        help="How gradients are summed: nccl among GPUs, hierarchical by copies in two levels, "
        "reduce-to-one on one device, or TensorFlow's choice.",
    )
    packs: int = setting(
        default=1,
        validator=validators.ge(1),
        help="Into how many packs nccl and hierarchical put the gradients.",
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.packs > 1 and self.communication not in PACKING:
            raise ValueError(f'packs has no effect with communication = "{self.communication}"')

    def equivalence(self) -> Literal["rounding", "changes"]:
        """The same batch, its gradients summed in parts; a larger batch is another training."""
        return "rounding" if self.batch_size == "global" else "changes"

    @hookimpl
    def configure_runtime(self, options: RuntimeOptions) -> RuntimeOptions:
        """Split the CPU where that is asked for."""
        if self.logical_cpu_devices is None:
            return options
        return attrs.evolve(options, logical_cpu_devices=self.logical_cpu_devices)

    @hookimpl
    def build_strategy(self, run: RunContext) -> Any:
        """A MirroredStrategy over the devices; over one it is a baseline for several.

        :raises PluginRefused: if there are none, or one of them does not exist.
        """
        gpus = sum(name.startswith("gpu") for name in logical_devices())
        devices = choose_devices(self.devices, self.logical_cpu_devices, gpus)
        check_devices(devices)
        check_communication(self.communication, devices)
        operations = cross_device_ops(self.communication, self.packs)
        return tf.distribute.MirroredStrategy(list(devices), operations)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the number of replicas back."""
        replicas = run.strategy.num_replicas_in_sync
        names = run.strategy.extended.worker_devices
        devices = ", ".join(name.rpartition("device:")[2] for name in names)
        if replicas < 2:
            return Effect.not_applied(f"the strategy has one replica, on {devices}")
        summed = ""
        if self.communication != "auto":
            missing = why_without("strategies-read-back")
            summed = f", {missing or type(run.strategy.extended._cross_device_ops).__name__}"
        return Effect.applied_as(f"{replicas} replicas, on {devices}{summed}{self._rules(run)}")

    def by_hand(self) -> str:
        """The same in plain code."""
        devices = repr(list(self.devices)) if self.devices else ""
        if self.communication != "auto":
            packs = self.packs if self.communication in PACKING else ""
            summed = f"tf.distribute.{OPERATIONS[self.communication]}({packs})"
            devices += f"{', ' if devices else ''}cross_device_ops={summed}"
        lines = [f"strategy = tf.distribute.MirroredStrategy({devices})", IN_SCOPE]
        if self.logical_cpu_devices is not None:
            parts = f"[tf.config.LogicalDeviceConfiguration()] * {self.logical_cpu_devices}"
            lines[:0] = [
                'cpu = tf.config.list_physical_devices("CPU")[0]',
                f"tf.config.set_logical_device_configuration(cpu, {parts})",
            ]
        if self.batch_size == "per-replica":
            factor = "the number of replicas"
            lines.append(f"# batches times {factor}, learning rate: {self.learning_rate}")
        return "\n".join(lines)
