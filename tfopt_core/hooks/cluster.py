"""Several processes that train one model together: who they are, and how many to start here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, validators

# In the order of TensorFlow: the chief is the first that trains.
TRAINING_JOBS = ("chief", "worker")
SERVING_JOB = "ps"
_NAMES = {"ps": "parameter server"}

# How long a process waits for the others to start, where nothing else is said.
JOIN_SECONDS = 300.0


@attrs.frozen(kw_only=True)
class ClusterOptions:
    """A strategy over several processes, as `configure_runtime` announces it.

    :param workers: how many workers `tfopt launch` and `tfopt apply` start on this machine; a
        cluster that the environment describes has as many as it says.
    :param parameter_servers: likewise; with any, a chief of its own hands the steps out, and all
        others serve it.
    :param join_seconds: how long a process waits for the others to start.
    """

    workers: int = field(default=2, validator=[validators.instance_of(int), validators.ge(1)])
    parameter_servers: int = field(
        default=0, validator=[validators.instance_of(int), validators.ge(0)]
    )
    join_seconds: float = field(default=JOIN_SECONDS, validator=validators.gt(0))


@attrs.frozen(kw_only=True)
class Cluster:
    """The processes of a training, by TensorFlow's names, and which of them this one is.

    :param addresses: "host:port" of every process, by job: "chief", "worker", "ps".
    :param job: this process' job, and `index` its place among those of the job.
    """

    addresses: Mapping[str, tuple[str, ...]]
    job: str
    index: int

    @classmethod
    def of(cls, resolver: Any) -> Cluster:
        """What a `tf.distribute.cluster_resolver.ClusterResolver` says."""
        addresses = {job: tuple(found) for job, found in resolver.cluster_spec().as_dict().items()}
        return cls(addresses=addresses, job=resolver.task_type, index=int(resolver.task_id))

    @property
    def coordinated(self) -> bool:
        """Whether a chief hands the steps out and all others serve it."""
        return bool(self.addresses.get(SERVING_JOB))

    @property
    def workers(self) -> tuple[tuple[str, int], ...]:
        """Job and index of every process that computes steps, in the order of their ranks."""
        jobs = ("worker",) if self.coordinated else TRAINING_JOBS
        return tuple((job, i) for job in jobs for i, _ in enumerate(self.addresses.get(job, ())))

    @property
    def rank(self) -> int:
        """This process' place among the workers; 0 for a chief that hands the steps out.

        :raises ValueError: for a process that is none of them, a parameter server say.
        """
        if self.coordinated and self.job == "chief":
            return 0
        return self.workers.index((self.job, self.index))

    @property
    def is_chief(self) -> bool:
        """Whether this is the one process that writes what is kept."""
        if self.coordinated or "chief" in self.addresses:
            return self.job == "chief"
        return (self.job, self.index) == ("worker", 0)

    @property
    def name(self) -> str:
        """`worker 1`."""
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
    """`worker 1`, `parameter server 0`, `chief`."""
    return "chief" if job == "chief" else f"{_NAMES.get(job, job)} {index}"


@attrs.frozen
class Serve:
    """What `build_strategy` returns in a process that trains nothing itself and serves a chief.

    Core then runs TensorFlow's server of this role until the chief has ended.
    """

    cluster: Cluster
    protocol: str = "grpc"
