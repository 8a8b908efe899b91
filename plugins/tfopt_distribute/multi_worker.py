"""Multi-worker: several processes, on one machine or many, train one model together."""

from __future__ import annotations

import os
from typing import Any, Literal

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Cluster,
    ClusterOptions,
    DataPlan,
    Effect,
    PluginRefused,
    Probe,
    RunContext,
    RuntimeOptions,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import tf, why_without
from tfopt_distribute.roles import ClusterKind, resolver
from tfopt_distribute.sharing import ShardPolicy, in_words, shared_plan
from tfopt_distribute.strategy_settings import (
    CLUSTER,
    JOIN_SECONDS,
    SLURM_PORT,
    ReplicaStrategy,
    addresses_setting,
    announced_workers,
    others,
)

Communication = Literal["auto", "ring", "nccl"]
ROLES = ("chief", "worker")


@plugin
class MultiWorker(ReplicaStrategy):
    """Trains one model in several processes, on one machine or many, each on its share.

    What it does: trains under MultiWorkerMirroredStrategy. Each worker holds a copy of the model
    and its part of every global batch; the gradients are summed over all, so all copies stay the
    same. Every worker runs the same recipe by `tfopt train`; TF_CONFIG, Slurm or addresses say who
    it is, and `tfopt launch` starts them all on this machine.

    Why it helps: the workers compute at the same time, and with them their GPUs and memories.

    When it does not: a step waits for the slowest worker, and for its gradients to cross the
    network: small models lose. Workers on one machine share its cores. Batch normalization sees a
    worker's part only.

    Mixes with: mixed-precision, prefetch; steps-per-execution runs several steps a call, XLA does
    not compile them. With shard = "batch" all workers make the same order of the data, so a
    Python generator must yield the same on each; where only maps of single examples stand before
    the batch, a worker computes its own part alone (random maps then draw other numbers than on
    one device), else every worker computes whole batches. With shard = "source" a worker reads,
    shuffles, caches or has a data-service compute its own part only.

    Reference: https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras
    """

    targets = ("compute", "communication")
    conflicts = (*others("multi-worker"), "resident", "shard")
    # what a service computes cannot be looked into, nor shared out by its order
    before = ("data-service",)
    # they change what a batch is made of, and it is whole batches that are shared out
    after = (
        "augment", "batch", "cache", "fit-batch", "interleave", "parallel-map", "shuffle",
        "vectorize-map",
    )  # fmt: skip

    workers: int = setting(
        default=2,
        validator=validators.ge(1),
        help="How many workers tfopt launch and tfopt apply start on this machine; a cluster "
        "that the environment describes has as many as it says.",
    )
    communication: Communication = setting(
        default="auto",
        help="How gradients are summed: ring (gRPC), nccl (GPUs), or TensorFlow's.",
    )
    pack_megabytes: float = setting(
        default=0.0,
        validator=validators.ge(0),
        help="Gradients are sent in packs of about so many MiB; 0 leaves it open.",
    )
    timeout_seconds: float | None = setting(
        default=None,
        validator=validators.optional(validators.gt(0)),
        help="How long a sum of gradients may take; left out, without end.",
    )
    shard: ShardPolicy = setting(
        default="batch",
        help="How examples are shared out: batch gives each worker its rows of each global "
        "batch; source every n-th element of the source; off leaves it to the workload.",
    )
    cluster: ClusterKind = CLUSTER
    addresses: tuple[str, ...] = addresses_setting(
        'The workers, ["host:port", ...], the chief first'
    )
    slurm_port: int = SLURM_PORT
    join_seconds: float = JOIN_SECONDS

    def equivalence(self) -> Literal["rounding", "changes"]:
        """The same batches, their gradients summed in parts; else another training.

        A source that is shared out gives batches of other examples, which is more than another
        order of the same batches and more than rounding.
        """
        same = self.batch_size == "global" and self.shard == "batch"
        return "rounding" if same else "changes"

    def resolve(self, probe: Probe) -> MultiWorker:
        """Check what can be checked without the others.

        :raises PluginRefused: for NCCL without a GPU.
        """
        if self.communication == "nccl" and not probe.machine.gpus:
            raise PluginRefused(
                'communication = "nccl" is for GPUs, and this machine has none; set it to "auto"'
            )
        return self

    @hookimpl
    def configure_runtime(self, options: RuntimeOptions) -> RuntimeOptions:
        """Announce a strategy over several processes."""
        cluster = ClusterOptions(workers=self.workers, join_seconds=self.join_seconds)
        return attrs.evolve(options, cluster=cluster)

    @hookimpl
    def build_strategy(self, run: RunContext) -> Any:
        """A MultiWorkerMirroredStrategy; waits until all workers are there.

        :raises PluginRefused: if nothing says who the workers are, or says it wrongly.
        """
        found = resolver(
            asked=self.cluster,
            roles=ROLES,
            jobs={"worker": None},
            addresses=self.addresses,
            port=self.slurm_port,
            environment=os.environ,
        )
        distribute = tf.distribute.experimental
        options = distribute.CommunicationOptions(
            bytes_per_pack=round(self.pack_megabytes * 2**20),
            timeout_seconds=self.timeout_seconds,
            implementation=distribute.CommunicationImplementation(self.communication.upper()),
        )
        run.join(Cluster.of(found))
        return tf.distribute.MultiWorkerMirroredStrategy(found, options)

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Take this worker's part of the data; before the cluster is joined, all parts together.

        :raises PluginRefused: for data that cannot be shared out.
        """
        plan = super().build_dataset(run, split, plan)
        rank = None if run.cluster is None else run.cluster.rank
        plan = shared_plan(plan, self.shard, self._workers(run), rank)
        run.state_of(self)[split] = in_words(plan)
        return plan

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read workers, replicas and communication back from the strategy."""
        strategy, cluster = run.strategy, run.cluster
        if cluster is None or not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return Effect.not_applied("this process trained alone")
        workers = len(cluster.workers)
        if workers < 2:
            return Effect.not_applied("the cluster has a single worker, this one")
        replicas = strategy.num_replicas_in_sync
        summed = why_without("strategies-read-back")
        if not summed:
            options = strategy.extended._communication_options
            summed = f"communication {options.implementation.value.lower()}"
        shared = run.state_of(self).get("train") or "the workload shares the data out itself"
        return Effect.applied_as(
            f"{workers} workers, {replicas} replicas, {summed}, {shared}{self._rules(run)}"
        )

    def _workers(self, run: RunContext) -> int:
        if run.cluster is not None:
            return len(run.cluster.workers)
        return announced_workers(os.environ, self.addresses, self.workers)

    def _replicas(self, run: RunContext) -> int:
        """Over all workers, each taken to have this machine's GPUs before the cluster is joined."""
        if run.cluster is not None:
            return run.replicas
        return self._workers(run) * max(1, len(run.machine.gpus))

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# Keras 3's fit fails under MultiWorkerMirroredStrategy: tfopt's own loop trains"
