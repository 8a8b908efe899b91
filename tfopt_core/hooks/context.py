"""What hooks and `resolve` are given of a run: its context, its cluster, and a probe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
from attrs import field, validators

from tfopt_core.hooks.machine import Machine

# In the order of TensorFlow, which puts the chief first.
TRAINING_JOBS = ("chief", "worker")
SERVING_JOB = "ps"
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
    kind = "parameter server" if job == SERVING_JOB else job
    return "chief" if job == "chief" else f"{kind} {index}"


@attrs.frozen
class Serve:
    """The return value of `build_strategy` in a process that only serves a chief.

    Core then runs TensorFlow's server for this role until the chief has ended.
    """

    cluster: Cluster
    protocol: str = "grpc"


@attrs.frozen(kw_only=True, eq=False)
class RunContext:
    """One fit of one run, as the hooks see it.

    `epochs` and `batch_size` (global: over all replicas) are what the recipe asks for; a
    `batch_size` of None means that the workload batches its data itself. The data
    are lowered behind `wrap_model`, since a stage may compute with the model: `datasets` (by
    split), `element_spec` (the `tf.TypeSpec` structure of one training batch) and `steps_per_epoch`
    (None too where the cardinality is unknown) are known from `configure_training` on. `strategy`
    is the one in use, once it is built.
    `folder` is private to the run, and `directory` is where the recipe lies. What an observer
    writes to `kept` stays: its last folder need not exist yet.
    `settings` are the resolved settings of every plugin of the stack, by plugin name.
    `cluster` is what `build_strategy` joined by `join`, None for a training of one process and in
    a dry build. A strategy that is built first knows of `epochs` and `batch_size` only what the
    recipe itself says (0 and None where it says nothing). `states` are what `state_of` hands out.
    """

    seed: int
    variant: str
    fit_index: int = 0
    epochs: int
    batch_size: int | None
    replicas: int = 1
    steps_per_epoch: int | None = None
    element_spec: Any = None
    datasets: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    strategy: Any = None
    machine: Machine
    settings: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    folder: Path
    directory: Path = attrs.field(factory=Path)
    kept: Path = attrs.field(
        default=attrs.Factory(lambda self: self.folder / "kept", takes_self=True)
    )
    cluster: Cluster | None = None
    join: Callable[[Cluster], None] = attrs.field(default=lambda cluster: None, repr=False)
    states: dict[Any, dict[str, Any]] = attrs.field(factory=dict, repr=False)

    def state_of(self, plugin: Any) -> dict[str, Any]:
        """Return a dict private to this plugin and this fit: `run.state_of(self)`.

        Plugins are frozen, so what one hook or callback must tell a later one goes here.
        """
        return self.states.setdefault(plugin, {})

    def metric_in(self, logs: Mapping[str, float], name: str) -> float | None:
        """Return a metric of the epoch that has ended; None for one of the validation after an
        epoch that is not validated, as with Keras' `validation_freq`.

        :raises ValueError: if there is no such metric.
        """
        if name in logs:
            return logs[name]
        validated = any(other.startswith("val_") for other in logs)
        if name.startswith("val_") and "validation" in self.datasets and not validated:
            return None
        raise ValueError(f'there is no metric "{name}"; the metrics are: {", ".join(sorted(logs))}')


@attrs.frozen(eq=False)
class ProbedTraining:
    """A compiled model, the train step that the stack makes of its own, and a batch of data."""

    model: Any
    train_step: Callable[[Any], Any]
    batch: Any


class Probe(Protocol):
    """The argument of a plugin's `resolve(probe)`, once per measurement, in a process of its own.

    Nothing here is part of a timed run; the seconds are printed as set-up cost.
    """

    @property
    def machine(self) -> Machine:
        """The machine."""

    @property
    def epochs(self) -> int:
        """Number of epochs of a run."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of one epoch of the training data, None if unknown."""

    @property
    def conflicts(self) -> Mapping[str, str]:
        """The plugins that others of the stack conflict with, each with the one that says so."""

    def plan(self, split: str = "train") -> Any:
        """Return the `DataPlan` of a split as they are without any plugin.

        :raises ValueError: if the workload has no data for the split.
        """

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Return the mean bytes of one example after the workload's deterministic stages, and the
        number of examples (None if unknown).

        :raises ValueError: if the workload has no data for the split.
        """

    def held_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Return the same, with the overhead of an example's tensors when they are held in memory.

        :raises ValueError: if the workload has no data for the split.
        """

    def available_disk_bytes(self) -> int:
        """Return the free bytes on the disk where the runs write their files."""

    def available_memory_bytes(self) -> int:
        """Return the memory in bytes that this process may still use, cgroup limits included."""

    def note(self, text: str) -> None:
        """Have the output say how the settings were found; a phrase that names what was tried."""

    def peak_memory_bytes(self, plugin: Any) -> int | None:
        """Return the peak resident memory of a process that trains some steps with the full stack,
        with `plugin` in place of the one that is being resolved; None where memory ran out.

        Where memory is short, the kernel ends that process before others.

        :raises PluginRefused: with the reason, if it failed otherwise.
        """

    def step_seconds(self, plugins: Sequence[Any]) -> list[float]:
        """Return the median seconds of a steady training step with the full stack, with each of
        these in place of the plugin that is being resolved, timed in turns.

        Plugins behind it whose settings are not resolved yet are left out. One with which no
        training can be built or traced gets infinite seconds; the results name it with the reason.
        So does, without a word, one whose call of several steps would take more than 3 s. Timing
        ends early once one of them is the fastest in every turn by far.
        """

    def model(self, plugin: Any) -> Any:
        """Return the compiled model with the full stack, with `plugin` in place of the one that is
        being resolved; nothing is read from the data."""

    def training(self, plugin: Any) -> ProbedTraining:
        """Return the training with the full stack, with `plugin` in place of the one that is being
        resolved, ready for a step.

        The model is built for this alone, except in a script: there it is the script's own, whose
        variables must be put back.
        """
