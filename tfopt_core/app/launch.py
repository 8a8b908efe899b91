"""Train with all processes of a cluster on this machine, as `tfopt launch` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tfopt_core.app.clustered import check_none_described, cluster_owner
from tfopt_core.app.command_request import make_request
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

    :param workers: how many, and how many `parameter_servers`; None for what the recipe says.
    :raises InputError: for whatever is wrong, and for a stack that trains in one process.
    """
    check_none_described(os.environ, "launch")

    def make(overrides: Sequence[str]) -> Request:
        return make_request(target, overrides, compares=False, save_to=save_to, debug=debug)[0]

    request = make(overrides)
    owner = cluster_owner(request)
    if owner is None:
        raise InputError(
            '"launch" needs a plugin that trains over several processes; add one to the stack '
            "(`tfopt plugins` lists them), or use `tfopt train`"
        )
    asked = {"workers": workers, "parameter_servers": parameter_servers}
    changes = [f"plugins.{owner}.{key}={n}" for key, n in asked.items() if n is not None]
    return make([*overrides, *changes]) if changes else request


def train_cluster(
    request: Request,
    on_roles: Callable[[tuple[Role, ...]], None],
    on_epoch: OnEpoch,
    on_epoch_of: Callable[[Role, EpochDone], None],
) -> tuple[Trained, tuple[RoleEnd, ...]]:
    """Start all processes and train. Return the training, and how each process ended.

    :param on_roles: told of all roles, once they are started.
    :param on_epoch: told of each epoch of the chief, as by `train_once`.
    :param on_epoch_of: told of each epoch of the others.
    """
    ended: list[RoleEnd] = []

    def said(role: Role, message: Progress) -> None:
        if isinstance(message, EpochDone):
            on_epoch_of(role, message)

    runner = LocalCluster(
        inner=SpawnRunner(),
        # what several processes write at once nobody can read: each writes to a file
        spawn=SpawnRunner(limits=NO_LIMITS),
        listener=Listener(began=on_roles, said=said, ended=ended.extend),
    )
    return train_once(request, SpawnRunner(), runner, on_epoch), tuple(ended)
