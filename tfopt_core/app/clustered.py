"""Find out whether a stack spans several processes, and by which plugin."""

from __future__ import annotations

from collections.abc import Mapping

from tfopt_core.errors import InputError
from tfopt_core.hooks import ClusterOptions
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import Defaults
from tfopt_core.trials.request import Request

# Variables that give a process its role in a cluster that was started by others.
DESCRIBE_A_CLUSTER = ("TF_CONFIG", "SLURM_PROCID")


def cluster_of(request: Request) -> ClusterOptions | None:
    """Return the cluster options of the stack; None for a training in a single process."""
    stack = Stack(request.plugins, Defaults())
    return stack.configure_runtime(request.machine, request.recipe).cluster


def cluster_owner(request: Request) -> str | None:
    """Return the name of the plugin that distributes the training over several processes."""
    stack = Stack(request.plugins, Defaults())
    stack.configure_runtime(request.machine, request.recipe)
    for change in stack.all_changes:
        if change.after.cluster is not None and change.before.cluster is None:
            return change.plugin
    return None


def check_none_described(environment: Mapping[str, str], command: str) -> None:
    """Refuse to start a cluster in a process that already belongs to one.

    :raises InputError: naming the variable.
    """
    for name in DESCRIBE_A_CLUSTER:
        if environment.get(name):
            raise InputError(
                f"{name} is set, and `tfopt {command}` starts all workers on this machine; unset "
                "it, or run `tfopt train` on each machine"
            )
