"""The processes of a cluster on this machine: their jobs, addresses and environments."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping, Sequence

import attrs

from tfopt_core.hooks.context import SERVING_JOB, Cluster, ClusterOptions, name_of

LOOPBACK = "127.0.0.1"
GPUS = "CUDA_VISIBLE_DEVICES"


@attrs.frozen
class Role:
    """One process of a cluster: its job, its index among the processes of the job, its address.

    :param leads: whether it is the chief, whose figures are those of the training.
    :param serves: whether it only works for the chief.
    """

    job: str
    index: int
    address: str
    leads: bool
    serves: bool

    @property
    def name(self) -> str:
        """The name in messages: `worker 1`."""
        return name_of(self.job, self.index)

    @property
    def folder(self) -> str:
        """The name of its folder within that of the run: `worker-1`."""
        return f"{self.job}-{self.index}"


def is_role_folder(name: str) -> bool:
    """Return whether a folder of this name within that of a run is a role's."""
    job, _, index = name.rpartition("-")
    return job in ("chief", "worker", SERVING_JOB) and index.isdecimal()


def roles_of(options: ClusterOptions) -> tuple[Role, ...]:
    """Return the roles of a cluster on this machine, the chief first, at addresses free now."""
    places = [("worker", index) for index in range(options.workers)]
    if options.parameter_servers:
        servers = [(SERVING_JOB, index) for index in range(options.parameter_servers)]
        places = [("chief", 0), *places, *servers]
    addresses = free_addresses(len(places))
    return tuple(
        Role(job, index, address, number == 0, number > 0 and options.parameter_servers > 0)
        for number, ((job, index), address) in enumerate(zip(places, addresses, strict=True))
    )


def free_addresses(count: int) -> tuple[str, ...]:
    """Return this many different "host:port" of this machine that are free now."""
    with contextlib.ExitStack() as stack:
        # all stay open until the last is chosen, so that none is chosen twice
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return tuple(f"{LOOPBACK}:{each.getsockname()[1]}" for each in sockets)


def environment_of(
    role: Role, roles: Sequence[Role], environment: Mapping[str, str], gpus: int
) -> dict[str, str]:
    """Return the environment of a role's process: TF_CONFIG, and its share of the GPUs.

    :param gpus: the number of GPUs of this machine.
    """
    addresses: dict[str, list[str]] = {}
    for each in roles:
        addresses.setdefault(each.job, []).append(each.address)
    config = {"cluster": addresses, "task": {"type": role.job, "index": role.index}}
    return {
        **environment,
        **_gpu_share(role, roles, environment.get(GPUS), gpus),
        "TF_CONFIG": json.dumps(config),
    }


def cluster_of(role: Role, roles: Sequence[Role]) -> Cluster:
    """Return the cluster as this role sees it."""
    jobs = dict.fromkeys(each.job for each in roles)
    addresses = {job: tuple(each.address for each in roles if each.job == job) for job in jobs}
    return Cluster(addresses=addresses, job=role.job, index=role.index)


def _gpu_share(role: Role, roles: Sequence[Role], visible: str | None, gpus: int) -> dict[str, str]:
    """Return the variable that gives each computing role its own GPUs; too few are shared."""
    if not gpus:
        return {}
    workers = cluster_of(role, roles).workers
    if (role.job, role.index) not in workers:
        return {GPUS: "-1"}
    ours = visible.split(",") if visible else [str(index) for index in range(gpus)]
    each = len(ours) // len(workers)
    if not each:
        return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    rank = workers.index((role.job, role.index))
    return {GPUS: ",".join(ours[rank * each : (rank + 1) * each])}
