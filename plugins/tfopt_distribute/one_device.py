"""One device: everything is placed on a named device."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import Effect, Machine, Plugin, Probe, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import tf
from tfopt_distribute.strategy_settings import IN_SCOPE, check_devices, others


def choose_device(machine: Machine) -> str:
    """The first GPU, else the CPU."""
    return "/gpu:0" if machine.gpus else "/cpu:0"


@plugin
class OneDevice(Plugin):
    """Places variables and computation on one named device.

    What it does: trains under OneDeviceStrategy.

    Why it helps: a small model can be faster on the CPU of a machine with a GPU; and it shows what
    a strategy itself costs, before mirrored is judged.

    When it does not: on the device that TensorFlow takes anyway it changes nothing but a little
    overhead, and Keras then leaves XLA off unless the xla plugin asks for it.

    Mixes with: everything but another strategy.

    Reference: https://www.tensorflow.org/api_docs/python/tf/distribute/OneDeviceStrategy
    """

    targets = ("compute",)
    # in its scope an optimizer of Keras updates nothing but in `strategy.run`, which `fit` calls
    own_loop = False
    conflicts = others("one-device")
    equivalence = "exact"  # the same training

    device: str = setting(
        default="auto",
        validator=validators.matches_re(r"auto|/(cpu|gpu):\d+"),
        help="The device, as /cpu:0 or /gpu:0; auto takes the first GPU if any.",
    )

    def resolve(self, probe: Probe) -> OneDevice:
        """Take the first GPU, or the CPU."""
        if self.device != "auto":
            return self
        return attrs.evolve(self, device=choose_device(probe.machine))

    @hookimpl
    def build_strategy(self, run: RunContext) -> Any:
        """A OneDeviceStrategy.

        :raises PluginRefused: if TensorFlow sees no such device.
        """
        device = choose_device(run.machine) if self.device == "auto" else self.device
        check_devices([device])
        strategy = tf.distribute.OneDeviceStrategy(device)
        # distributed data are read ahead: a generator would be left some batches further on
        strategy.experimental_distribute_dataset = lambda dataset, options=None: dataset
        return strategy

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the strategy and its device back."""
        devices = run.strategy.extended.worker_devices
        return Effect.applied_as(f"{type(run.strategy).__name__} on {', '.join(devices)}")

    def by_hand(self) -> str:
        """The same in plain code."""
        device = "/gpu:0" if self.device == "auto" else self.device
        return f"strategy = tf.distribute.OneDeviceStrategy({device!r})\n{IN_SCOPE}"
