"""What the strategies have in common: settings of a cluster, the global batch, devices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import validators

from tfopt_core.plugins import (
    DataPlan,
    Plugin,
    PluginRefused,
    RunContext,
    Split,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import RateRule, rate_factor, tf, with_batch_size, with_scaled_rate
from tfopt_distribute.roles import is_address

BatchRule = Literal["global", "per-replica"]
MEND = 'set batch_size = "global" and a larger workload.batch_size'
# How a model is built by hand under a `strategy`.
IN_SCOPE = "with strategy.scope():\n    model = build_model()\n    model.compile(optimizer, loss)"
# Every plugin that builds a strategy; a training has one.
OWNERS = ("mirrored", "multi-worker", "one-device", "parameter-server", "tpu")


def others(name: str) -> tuple[str, ...]:
    """The strategies that cannot stand beside this one."""
    return tuple(owner for owner in OWNERS if owner != name)


# The settings of strategies over several processes.
CLUSTER = setting(
    default="auto",
    help="What describes the cluster: TF_CONFIG, the variables of a Slurm step, or the addresses "
    "below; auto takes the first of these that is there.",
)
SLURM_PORT = setting(
    default=8888,
    validator=[validators.ge(1), validators.lt(2**16)],
    help="The first port that processes listen on under Slurm; one more for each of a node.",
)
JOIN_SECONDS = setting(
    default=300.0,
    validator=validators.gt(0),
    help="How many seconds a process waits for the others to start.",
)


def addresses_setting(whose: str) -> Any:
    """Return the setting for the addresses of all processes, none of them twice.

    :param whose: how the list is described, `The workers, ["host:port", ...], the chief first`.
    """
    help = f"{whose}; TFOPT_ADDRESS_INDEX tells each its place, where its host does not."
    return setting(default=(), converter=tuple, validator=_check_addresses, help=help)


def _check_addresses(_: Any, attribute: Any, value: Sequence[str]) -> None:
    for address in value:
        if not is_address(address):
            raise ValueError(f'{attribute.name}: "{address}" is not of the form "host:port"')
    if len(set(value)) < len(value):
        raise ValueError(f"{attribute.name}: an address stands there twice")


def announced_workers(environment: Mapping[str, str], addresses: Sequence[str], asked: int) -> int:
    """How many workers there will be, as far as that is told before the cluster is joined.

    A wrong TF_CONFIG is left to whoever joins.
    """
    try:
        cluster = json.loads(environment.get("TF_CONFIG", "{}"))["cluster"]
        told = len(cluster.get("chief", ())) + len(cluster.get("worker", ()))
        return max(told, 1)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "")
    if tasks.isdecimal() and int(tasks):
        return int(tasks)
    return len(addresses) or asked


def logical_devices() -> tuple[str, ...]:
    """Return the devices that TensorFlow sees, as `cpu:0`."""
    found = tf.config.list_logical_devices()
    return tuple(device.name.removeprefix("/device:").lower() for device in found)


def check_devices(devices: Iterable[str]) -> None:
    """:raises PluginRefused: for a device, as `/gpu:0`, that TensorFlow does not see."""
    there = logical_devices()
    for device in devices:
        if device.lower().removeprefix("/").removeprefix("device:") not in there:
            raise PluginRefused(
                f'there is no device "{device}"; TensorFlow sees {", ".join(there)}'
            )


@plugin
class ReplicaStrategy(Plugin):
    """A strategy over several replicas, with what their number does to batch and learning rate."""

    batch_size: BatchRule = setting(
        default="global",
        help="What the recipe's batch size means: global is that of a step, shared out "
        "among the replicas, so the training is that of one device; per-replica multiplies it "
        "by their number.",
    )
    learning_rate: RateRule = setting(
        default="keep",
        help="The learning rate under per-replica: keep leaves it; linear multiplies it by "
        "the number of replicas (Goyal et al. 2017), sqrt by the root of that (Krizhevsky "
        "2014).",
    )

    def __attrs_post_init__(self) -> None:
        if self.batch_size == "global" and self.learning_rate != "keep":
            raise ValueError(
                f'learning_rate = "{self.learning_rate}" goes with a larger batch only; set '
                'batch_size = "per-replica"'
            )

    def _replicas(self, run: RunContext) -> int:
        return run.replicas

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Scale the learning rate by the rule.

        :raises PluginRefused: for a schedule whose rates cannot be scaled.
        """
        return with_scaled_rate(options, self.learning_rate, self._replicas(run))

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Make the training batches larger where that is asked for.

        :raises PluginRefused: for batches that cannot be made larger.
        """
        if split != "train" or self.batch_size == "global":
            return plan
        replicas = self._replicas(run)
        return with_batch_size(plan, lambda size: size * replicas, MEND)

    def _rules(self, run: RunContext) -> str:
        """Return `, global batch 64, learning rate x 2 (linear)`, "" for the batch as it was."""
        if self.batch_size == "global":
            return ""
        rate, factor = self.learning_rate, rate_factor(self.learning_rate, self._replicas(run))
        scaled = "kept" if rate == "keep" else f"x {factor:.3g} ({rate})"
        return f", global batch {run.batch_size}, learning rate {scaled}"
