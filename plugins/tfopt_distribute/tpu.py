"""TPU: the cores of a TPU train together."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.plugins import (
    DataPlan,
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    RuntimeOptions,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import tf
from tfopt_distribute.strategy_settings import IN_SCOPE, others


def check_full_batches(plan: DataPlan) -> None:
    """:raises PluginRefused: if a batch may be smaller than the others."""
    size, count = plan.batch_size, plan.examples
    if plan.batching is not None and plan.batching[1].drop_remainder:
        return
    if plan.batching is None or not size or not count or count % size:
        last = "the last batch" if count is None or not size else f"the last of {count:,} examples"
        raise PluginRefused(
            f"a TPU compiles its step for one size of batch, and {last} may be fewer than the "
            'others; add the plugin "batch" with last = "drop" before this one'
        )


@plugin
class Tpu(Plugin):
    """Trains one model on all cores of a TPU. Not run on hardware yet.

    What it does: connects to a TPU by its name, initializes it, and trains under TPUStrategy. Each
    core holds a copy of the model and takes its share of the global batch; the gradients are
    summed over all.

    Why it helps: matrix products in bfloat16 are what a TPU is made for.

    When it does not: shapes must not change, so batches that are smaller than the others are
    refused; what XLA cannot compile, strings say, cannot be part of the model. Small batches leave
    the cores empty. This is written against TensorFlow's documented interface and tested with its
    functions replaced; it was not run on hardware yet.

    Mixes with: mixed-precision in bfloat16, prefetch, batch with last = "drop" before it.

    Reference: https://www.tensorflow.org/guide/tpu
    """

    targets = ("compute", "communication")
    own_loop = False
    conflicts = (*others("tpu"), "prefetch-to-device", "resident")
    after = ("batch",)
    equivalence = "rounding"  # the same batch, its gradients summed in parts

    tpu: str = setting(
        default="",
        help=('The TPU\'s name, its address "grpc://host:port", or local; empty reads TPU_NAME.'),
    )
    zone: str = setting(default="", help="Its zone; empty for the machine's own.")
    project: str = setting(default="", help="Its project; empty for the machine's own.")

    @hookimpl
    def configure_runtime(self, options: RuntimeOptions) -> RuntimeOptions:
        """A TPU must be initialized before anything is computed."""
        return attrs.evolve(options, strategy_first=True)

    @hookimpl
    def build_strategy(self, run: RunContext) -> Any:
        """A TPUStrategy over the cores of an initialized TPU.

        :raises PluginRefused: if there is no such TPU.
        """
        try:
            found = tf.distribute.cluster_resolver.TPUClusterResolver(
                tpu=self.tpu or None, zone=self.zone or None, project=self.project or None
            )
            tf.config.experimental_connect_to_cluster(found)
            tf.tpu.experimental.initialize_tpu_system(found)
        # the resolver's own for a name it cannot find, its client's, and TensorFlow's later on
        except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            name = f'"{self.tpu}"' if self.tpu else "of the environment"
            raise PluginRefused(
                f"the TPU {name} cannot be used ({first.rstrip('.')}); set tpu to its name, or to "
                '"local" on a TPU VM'
            ) from error
        return tf.distribute.TPUStrategy(found)

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Refuse training data whose batches differ in size.

        :raises PluginRefused: with what to do.
        """
        if split == "train":
            check_full_batches(plan)
        return plan

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read the cores back from the strategy."""
        devices = run.strategy.extended.worker_devices
        cores = sum("TPU" in device.upper() for device in devices)
        if not cores:
            return Effect.not_applied(f"the strategy's devices are {', '.join(devices)}")
        return Effect.applied_as(f"{run.strategy.num_replicas_in_sync} replicas on {cores} cores")

    def by_hand(self) -> str:
        """The same in plain code."""
        named = {"tpu": self.tpu, "zone": self.zone, "project": self.project}
        place = ", ".join(f"{key}={value!r}" for key, value in named.items() if value)
        return (
            f"resolver = tf.distribute.cluster_resolver.TPUClusterResolver({place})\n"
            "tf.config.experimental_connect_to_cluster(resolver)\n"
            "tf.tpu.experimental.initialize_tpu_system(resolver)\n"
            f"strategy = tf.distribute.TPUStrategy(resolver)\n{IN_SCOPE}"
        )
