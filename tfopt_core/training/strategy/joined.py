"""Build a strategy before TensorFlow opens its devices and before the workload is loaded."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.errors import ClusterError, PluginError, describe
from tfopt_core.hooks import Cluster, RunContext, Serve
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import Defaults
from tfopt_core.records.messages import ClusterJoined, Tell
from tfopt_core.training.job import Job
from tfopt_core.training.strategy.addresses import Joining


@attrs.frozen(eq=False)
class Joined:
    """A strategy that is built already, the processes it spans, and the plugins' states.

    `nanoseconds` is the time of building it, of waiting for the other processes and of agreeing
    with them, which a single process does not need.
    """

    strategy: Any
    cluster: Cluster | None
    states: dict[Any, dict[str, Any]]
    nanoseconds: int = 0


def join(job: Job, tell: Tell) -> Joined | Serve:
    """Build the strategy of a job that needs it first; waits for the other processes.

    :raises ClusterError: if the processes do not connect.
    :raises PluginError, PluginRefused: naming the strategy's owner.
    """
    import tensorflow as tf

    joining = Joining.under(job.runtime.cluster, tell)
    spec = job.recipe.workload
    stack = Stack(job.plugins, Defaults())
    run = RunContext(
        seed=job.seed,
        variant=job.variant,
        epochs=spec.epochs or 0,
        batch_size=spec.batch_size,
        machine=job.machine,
        settings=stack.settings,
        folder=job.folder,
        directory=job.recipe.directory,
        join=joining,
    )
    try:
        strategy = stack.build_strategy(run)
    except PluginError as error:
        if isinstance(error.__cause__, ClusterError):
            raise error.__cause__ from error
        if isinstance(error.__cause__, tf.errors.OpError) and joining.cluster is not None:
            cause = describe(error.__cause__)
            raise ClusterError(f"{joining.cluster.name} could not join: {cause}") from error
        raise
    if isinstance(strategy, Serve):
        return strategy
    if not isinstance(strategy, tf.distribute.Strategy):
        raise ClusterError(
            f"build_strategy returned a {type(strategy).__name__}; return a "
            "tf.distribute.Strategy, or Serve in a process that only serves"
        )
    if joining.cluster is not None:
        tell(ClusterJoined())
    return Joined(strategy, joining.cluster, run.states)
