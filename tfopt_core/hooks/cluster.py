"""The processes that train one model together: their roles, and how many to start here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, validators

# In the order of TensorFlow, which puts the chief first.
TRAINING_JOBS = ("chief", "worker")
SERVING_JOB = "ps"
_NAMES = {"ps": "parameter server"}

# How long a process waits for the others to start, by default.
JOIN_SECONDS = 300.0


@attrs.frozen(kw_only=True)
class ClusterOptions:
    """A strategy over several processes, as returned by `configure_runtime`.

    :param workers: number of workers that `tfopt launch` and `tfopt apply` start on this machine;
        ignored for a cluster that the environment describes.
    :param parameter_servers: their number, likewise; if there are any, a separate chief
        dispatches the steps, and all other processes serve it.
    :param join_seconds: how long a process waits for the others to start.
    """

    workers: int = field(default=2, validator=[validators.instance_of(int), validators.ge(1)])
    parameter_servers: int = field(
        default=0, validator=[validators.instance_of(int), validators.ge(0)]
    )
    join_seconds: float = field(default=JOIN_SECONDS, validator=validators.gt(0))


@attrs.frozen(kw_only=True)
class Cluster:
    """The processes of a training, by TensorFlow's names, and the role of this one.

    :param addresses: "host:port" of every process, by job: "chief", "worker", "ps".
    :param job: this process' job; `index` is its number within the job.
    """

    addresses: Mapping[str, tuple[str, ...]]
    job: str
    index: int

    @classmethod
    def of(cls, resolver: Any) -> Cluster:
        """Return the cluster of a `tf.distribute.cluster_resolver.ClusterResolver`."""
        addresses = {job: tuple(tasks) for job, tasks in resolver.cluster_spec().as_dict().items()}
        return cls(addresses=addresses, job=resolver.task_type, index=int(resolver.task_id))

    @property
    def coordinated(self) -> bool:
        """Whether a chief dispatches the steps and all other processes serve it."""
        return bool(self.addresses.get(SERVING_JOB))

    @property
    def workers(self) -> tuple[tuple[str, int], ...]:
        """Job and index of every process that computes steps, in the order of their ranks."""
        jobs = ("worker",) if self.coordinated else TRAINING_JOBS
        return tuple((job, i) for job in jobs for i, _ in enumerate(self.addresses.get(job, ())))

    @property
    def rank(self) -> int:
        """This process' number among the workers; 0 for a chief that dispatches the steps.

        :raises ValueError: for a process that is no worker, such as a parameter server.
        """
        if self.coordinated and self.job == "chief":
            return 0
        return self.workers.index((self.job, self.index))

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes files."""
        if self.coordinated or "chief" in self.addresses:
            return self.job == "chief"
        return (self.job, self.index) == ("worker", 0)

    @property
    def name(self) -> str:
        """The name of this process, such as `worker 1`."""
        return name_of(self.job, self.index)

    @property
    def address(self) -> str:
        """This process' own "host:port"."""
        return self.addresses[self.job][self.index]

    @property
    def others(self) -> dict[str, str]:
        """The addresses of all other processes, by name."""
        return {
            name_of(job, index): address
            for job, addresses in self.addresses.items()
            for index, address in enumerate(addresses)
            if (job, index) != (self.job, self.index)
        }


def name_of(job: str, index: int) -> str:
    """Return `worker 1`, `parameter server 0` or `chief`."""
    return "chief" if job == "chief" else f"{_NAMES.get(job, job)} {index}"


@attrs.frozen
class Serve:
    """The return value of `build_strategy` in a process that only serves a chief.

    Core then runs TensorFlow's server for this role until the chief has ended.
    """

    cluster: Cluster
    protocol: str = "grpc"
