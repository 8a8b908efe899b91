"""Prefetch to device: the next batches are copied to the accelerator while a step computes."""

from __future__ import annotations

from typing import Any, Literal

import attrs
from attrs import validators

from tfopt_core.data import Prefetch as PrefetchStage
from tfopt_core.plugins import DataPlan, Diagnosis, RunContext, Split, plugin, setting
from tfopt_core.toolkit import number_or, tf
from tfopt_data.rewrite import Rewrite, RewritingPlugin, input_matters

FIRST_GPU = "/gpu:0"


def with_prefetch_to_device(
    plan: DataPlan, device: str, buffer_size: int | Literal["auto"] = "auto"
) -> Rewrite:
    """The plan with a prefetch into a device's memory as its very last stage.

    A prefetch into the memory of the machine stays before it.

    :param buffer_size: batches to hold ready there; "auto" is tf.data's AUTOTUNE.
    """
    if plan.source.origin == "pydataset":
        return Rewrite(plan, reason="a PyDataset is read by Keras' own workers, not by tf.data")
    for stage in plan.stages:
        if isinstance(stage, PrefetchStage) and stage.device is not None:
            return Rewrite(plan, reason=f"the workload has its own ({stage.describe()})")
    for index, stage in enumerate(plan.stages):
        if isinstance(stage, PrefetchStage) and not stage.inside:
            # else the last one that was asked for would take its place
            plan = plan.replace(index, attrs.evolve(stage, inside=True))
    stage = PrefetchStage(buffer_size=buffer_size, device=device)
    return Rewrite(plan.append(stage), done=stage.describe())


@plugin
class PrefetchToDevice(RewritingPlugin):
    """Copies the next batches to the accelerator while the current step computes.

    What it does: ends the input pipeline with a prefetch into the memory of the GPU. It pins no
    memory: TensorFlow takes pinned (page-locked) memory by itself for what its kernels mark as
    meant for a GPU, leaves other batches in ordinary memory, and has no public switch for that.

    Why it helps: a step finds its batch on the device and does not wait for the copy.

    When it does not: on a machine without an accelerator; for small batches, whose copy takes
    microseconds; under a strategy, which copies to its devices itself. A shuffle before it
    yields other orders than without it. The copy of a batch in ordinary memory overlaps
    with a step only in part (tensorflow#43905).

    Mixes with: cache, parallel-map and prefetch; it stands after everything else, and takes a few
    batches of device memory.

    Reference: https://www.tensorflow.org/api_docs/python/tf/data/experimental/prefetch_to_device
    """

    targets = ("input",)
    _sign = "CopyToDevice"
    after = (
        "autotune", "batch", "cache", "interleave", "parallel-map", "prefetch", "shard", "shuffle",
        "vectorize-map",
    )  # fmt: skip
    # From the second epoch on a shuffle has another order: Keras makes iterators that it does not
    # read, and they draw no seeds on the device.
    equivalence = "order"

    device: str = setting(
        default="auto",
        validator=validators.matches_re(r"auto|/.*"),
        help='Where the batches go, such as "/gpu:0"; auto is the first GPU.',
    )
    buffer_size: int | Literal["auto"] = number_or(
        "auto", "Batches that are held there; auto lets tf.data tune it (AUTOTUNE)."
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where there is a GPU and a step waits for its input."""
        if len(diagnosis.machine.gpus) != 1 or not input_matters(diagnosis):
            return None
        return {}

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        reason = self._refusal(run)
        if reason:
            return Rewrite(plan, reason=reason)
        device = FIRST_GPU if self.device == "auto" else self.device
        return with_prefetch_to_device(plan, device, self.buffer_size)

    def _refusal(self, run: RunContext) -> str:
        if not run.machine.gpus and (self.device == "auto" or "gpu" in self.device.lower()):
            return "there is no accelerator to copy to"
        if run.replicas > 1:
            return f"the strategy copies to its {run.replicas} devices itself"
        if run.strategy is not None:
            copying = tf.distribute.OneDeviceStrategy, tf.distribute.MirroredStrategy
            if isinstance(run.strategy, copying):
                return "the strategy copies to its device itself"
        return ""

    def by_hand(self) -> str:
        """The same in plain code."""
        device = "/gpu:0" if self.device == "auto" else self.device
        size = "" if self.buffer_size == "auto" else f", buffer_size={self.buffer_size}"
        copied = f"tf.data.experimental.prefetch_to_device({device!r}{size})"
        return f"train = train.apply({copied})  # last"
