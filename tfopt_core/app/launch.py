"""Train with all processes of a cluster on this machine, as `tfopt launch` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tfopt_core.app.clustered import check_none_described, cluster_owner
from tfopt_core.app.command_request import make_request
from tfopt_core.app.script_target import refuse_script
from tfopt_core.app.train import OnEpoch, Trained, train_once
from tfopt_core.errors import InputError
from tfopt_core.records.messages import EpochDone, Progress
from tfopt_core.trials.request import Request
from tfopt_core.workers.clusters.local import Listener, LocalCluster, RoleEnd
from tfopt_core.workers.clusters.roles import Role
from tfopt_core.workers.spawn import SpawnRunner
from tfopt_core.workers.supervise import NO_LIMITS


def make_cluster_request(
    target: str,
    overrides: Sequence[str],
    *,
    workers: int | None,
    parameter_servers: int | None,
    save_to: Path | None = None,
    debug: bool = False,
) -> Request:
    """Return the request of a training whose processes are all started on this machine.

    :param workers, parameter_servers: the number of each; None for those of the recipe.
    :raises InputError: for errors in the recipe, and for a stack that trains in one process.
    """
    check_none_described(os.environ, "launch")
    refuse_script(target, "tfopt launch")

    def make(overrides: Sequence[str]) -> Request:
        return make_request(target, overrides, compares=False, save_to=save_to, debug=debug)[0]

    request = make(overrides)
    owner = cluster_owner(request)
    if owner is None:
        raise InputError(
            '"launch" needs a plugin that trains over several processes; add one to the stack '
            "(`tfopt plugins` lists them), or use `tfopt train`"
        )
    counts = {"workers": workers, "parameter_servers": parameter_servers}
    changes = [f"plugins.{owner}.{key}={n}" for key, n in counts.items() if n is not None]
    return make([*overrides, *changes]) if changes else request


def train_cluster(
    request: Request,
    on_roles: Callable[[tuple[Role, ...]], None],
    on_epoch: OnEpoch,
    on_epoch_of: Callable[[Role, EpochDone], None],
) -> tuple[Trained, tuple[RoleEnd, ...]]:
    """Start all processes and train. Return the training, and how each process ended.

    :param on_roles: called with all roles before they start.
    :param on_epoch: called after each epoch of the chief, as by `train_once`.
    :param on_epoch_of: called after each epoch of another role.
    """
    ended: list[RoleEnd] = []

    def on_message(role: Role, message: Progress) -> None:
        if isinstance(message, EpochDone):
            on_epoch_of(role, message)

    runner = LocalCluster(
        inner=SpawnRunner(),
        # the mixed output of several processes is unreadable: each writes to a file
        spawn=SpawnRunner(limits=NO_LIMITS),
        listener=Listener(on_begin=on_roles, on_message=on_message, on_end=ended.extend),
    )
    return train_once(request, SpawnRunner(), runner, on_epoch), tuple(ended)
