"""Parameter server: workers train at their own pace on parameters that servers hold."""

from __future__ import annotations

import os
from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Cluster,
    ClusterOptions,
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    RuntimeOptions,
    Serve,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import process_cpus, tf, why_without
from tfopt_distribute.roles import PROTOCOL, ClusterKind, resolver
from tfopt_distribute.strategy_settings import (
    CLUSTER,
    JOIN_SECONDS,
    SLURM_PORT,
    addresses_setting,
    others,
)

ROLES = ("chief", "worker", "ps")
LEAST_INTER_OP_THREADS = 2


def inter_op_threads() -> int:
    """Return how many operations TensorFlow runs at once in this process."""
    asked = tf.config.threading.get_inter_op_parallelism_threads()
    by_environment = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    if not asked and by_environment.isdecimal():
        asked = int(by_environment)
    return asked or len(process_cpus())


@plugin
class ParameterServer(Plugin):
    """Hands training steps out to workers, on parameters that other processes hold.

    What it does: trains under ParameterServerStrategy. A chief hands the steps out; each worker
    reads the parameters from the servers, computes the gradients of a batch of its own, and sends
    them back, without waiting for the other workers.

    Why it helps: no step waits for the slowest worker, so workers may be of different speed;
    tables that fit no single machine are spread over the servers.

    When it does not: gradients are computed from parameters that others have changed meanwhile,
    which costs accuracy, the more workers the more. Every step moves all parameters over the
    network. Workers of equal speed are better off with multi-worker.

    Mixes with: mixed-precision in bfloat16. Each worker repeats shuffled data of its own, so an
    epoch has as many steps as on one device, but not each example exactly once. Batch
    normalization's averages lose updates. Single large variables are not split, since Keras 3
    computes no gradients of split ones. threads, with two inter-op threads at least.

    Reference: https://www.tensorflow.org/tutorials/distribute/parameter_server_training
    """

    targets = ("compute", "communication")
    own_loop = False
    # each worker builds its data within a graph, where a data set cannot be sent to a service
    conflicts = (
        *others("parameter-server"), "data-service", "resident", "shard",
    )  # fmt: skip
    # gradients are applied one worker's batch at a time, and are partly out of date
    equivalence = "changes"

    workers: int = setting(
        default=2,
        validator=validators.ge(1),
        help="How many workers compute steps; a TF_CONFIG has as many as it says.",
    )
    parameter_servers: int = setting(
        default=1,
        validator=validators.ge(1),
        help="How many processes hold the parameters; a TF_CONFIG says it itself.",
    )
    steps_per_closure: int = setting(
        default=8,
        validator=validators.ge(1),
        help="Steps that a worker is handed at once; more cost fewer messages.",
    )
    cluster: ClusterKind = CLUSTER
    addresses: tuple[str, ...] = addresses_setting(
        'All processes, ["host:port", ...]: the chief, the workers, the parameter servers'
    )
    slurm_port: int = SLURM_PORT
    join_seconds: float = JOIN_SECONDS

    @hookimpl
    def configure_runtime(self, options: RuntimeOptions) -> RuntimeOptions:
        """Announce a strategy over several processes."""
        cluster = ClusterOptions(
            workers=self.workers,
            parameter_servers=self.parameter_servers,
            join_seconds=self.join_seconds,
        )
        return attrs.evolve(options, cluster=cluster)

    @hookimpl
    def build_strategy(self, run: RunContext) -> Any:
        """On the chief a ParameterServerStrategy; elsewhere what core serves the chief with.

        :raises PluginRefused: if nothing says who the processes are, or says it wrongly; with a
            single inter-op thread, which would wait for ever for what it is to send itself.
        """
        if inter_op_threads() < LEAST_INTER_OP_THREADS:
            raise PluginRefused(
                "with a single inter-op thread each process would wait for ever; set inter_op = 2 "
                'in "threads", or TF_NUM_INTEROP_THREADS=2'
            )
        found = resolver(
            asked=self.cluster,
            roles=ROLES,
            jobs={"chief": 1, "worker": self.workers, "ps": self.parameter_servers},
            addresses=self.addresses,
            port=self.slurm_port,
            environment=os.environ,
        )
        cluster = Cluster.of(found)
        run.join(cluster)
        if cluster.job != "chief":
            return Serve(cluster, PROTOCOL)
        strategy = tf.distribute.experimental.ParameterServerStrategy(found)
        # core's loop reads it there: no value that hooks pass along is about closures
        strategy.tfopt_steps_per_closure = self.steps_per_closure
        return strategy

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read workers and servers back from the strategy."""
        if not isinstance(run.strategy, tf.distribute.experimental.ParameterServerStrategy):
            return Effect.not_applied("this process trained alone")
        missing = why_without("strategies-read-back")
        if missing:
            return Effect.applied_as(missing)
        workers, servers = run.strategy.extended._num_workers, run.strategy.extended._num_ps
        return Effect.applied_as(
            f"{workers} worker{'s' * (workers > 1)}, {servers} parameter "
            f"server{'s' * (servers > 1)}, {self.steps_per_closure} steps handed out at once"
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# Keras 3's fit fails under ParameterServerStrategy: tfopt's own loop trains"
