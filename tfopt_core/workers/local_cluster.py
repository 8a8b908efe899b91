"""The processes of a cluster on this machine: their places, and a training over all of them."""

from __future__ import annotations

import contextlib
import json
import math
import resource
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import attrs

from tfopt_core.hooks.context import SERVING_JOB, Cluster, ClusterOptions
from tfopt_core.training.messages import EpochDone, Message, RunReport, Tell
from tfopt_core.workers.spawn import ProcessOutcome, SpawnRunner
from tfopt_core.workers.task import Failure, RunTask, Task

# Once a role has failed, the others get time to report the cause: TensorFlow notices within some
# 10 s that a worker is gone.
LOSS_SECONDS = 20.0
# Once the chief has trained, the other workers save nothing and have little left to do.
END_SECONDS = 60.0
SERVED_SECONDS = 5.0
POLL_SECONDS = 0.1
LOOPBACK = "127.0.0.1"
GPUS = "CUDA_VISIBLE_DEVICES"


@attrs.frozen(kw_only=True)
class RoleEnd:
    """How one role of a cluster ended.

    :param metrics: the metrics of its last finished epoch.
    :param called_off: whether it was ended because another role had failed or the chief had ended.
    :param seconds: the time from the start of all roles to this end.
    """

    role: Role
    outcome: ProcessOutcome
    metrics: Mapping[str, float]
    called_off: bool
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether its process failed."""
        message = self.outcome.message
        return not self.called_off and (message is None or isinstance(message, Failure))

    @property
    def cause(self) -> str:
        """Why it failed, naming the role: `worker 1 was killed by SIGKILL`."""
        name, message = self.role.name, self.outcome.message
        cause = self.outcome.cause or "no cause is known"
        if isinstance(message, Failure):
            cause = message.message
        if cause.startswith(f"{name}:"):
            return cause
        if cause.startswith("killed by"):
            return f"{name} was {cause}"
        if message is None and cause.startswith(("broke", "ended", "hung", "took")):
            return f"{name} {cause}"
        return f"{name}: {cause}"


@attrs.frozen(kw_only=True)
class LocalCluster:
    """Runs a training over several processes, each role in its own process.

    :param spawn: starts each role, and the processes of all other tasks.
    :param on_begin: called with all roles before they start.
    :param on_message: called with each message of a role other than the chief; those of the chief
        are passed on as in any run.
    :param on_end: called with the ends of all roles, in order of time.
    """

    spawn: SpawnRunner
    on_begin: Callable[[tuple[Role, ...]], None] = lambda roles: None
    on_message: Callable[[Role, Message], None] = lambda role, message: None
    on_end: Callable[[tuple[RoleEnd, ...]], None] = lambda ends: None
    loss_seconds: float = LOSS_SECONDS
    end_seconds: float = END_SECONDS
    served_seconds: float = SERVED_SECONDS

    def __call__(self, task: Task, environment: Mapping[str, str], tell: Tell) -> ProcessOutcome:
        options = task.job.runtime.cluster
        if not isinstance(task, RunTask) or options is None:
            return self.spawn(task, environment, tell)
        roles = roles_of(options)
        self.on_begin(roles)
        begun, computed = time.perf_counter(), _computed_seconds()
        ends = _ClusterRun(self, task, environment, tell).go(roles)
        self.on_end(ends)
        return _outcome(ends, time.perf_counter() - begun, _computed_seconds() - computed)


@attrs.define(eq=False)
class _ClusterRun:
    """One training: runs its roles until the last of them has ended."""

    cluster: LocalCluster
    task: RunTask
    environment: Mapping[str, str]
    tell: Tell
    # messages of the roles are passed on one at a time
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    ends: list[RoleEnd] = attrs.field(factory=list)
    begun: float = attrs.field(factory=time.monotonic)
    deadline: float = math.inf
    called_off: str | None = None

    def go(self, roles: Sequence[Role]) -> tuple[RoleEnd, ...]:
        """Start all roles and pass on their messages. Return their ends in order of time."""
        with ThreadPoolExecutor(len(roles)) as threads:
            try:
                going = {threads.submit(self.serve, role) for role in roles}
                while going:
                    done, going = wait(going, POLL_SECONDS, return_when=FIRST_COMPLETED)
                    for one in done:
                        one.result()  # raises what its thread has raised
                    if time.monotonic() > self.deadline:
                        self.called_off = "ended with the others"
            except BaseException:
                self.called_off = "interrupted"
                raise
        # a server may notice the end of its chief before this process does
        done_at = [end.seconds for end in self.ends if end.role.is_chief and not end.failed]
        after = done_at[0] - self.cluster.served_seconds if done_at else math.inf
        return tuple(
            attrs.evolve(end, called_off=end.called_off or end.failed)
            if end.role.serves and end.seconds > after
            else end
            for end in self.ends
        )

    def serve(self, role: Role) -> None:
        """Run the process of a role in its thread: pass on its messages and keep its end."""
        cluster = self.cluster
        metrics: Mapping[str, float] = {}

        def tell(message: Message) -> None:
            nonlocal metrics
            with self.lock:
                if isinstance(message, EpochDone):
                    metrics = message.metrics
                if role.is_chief:
                    self.tell(message)
                else:
                    cluster.on_message(role, message)

        limits = attrs.evolve(cluster.spawn.limits, called_off=lambda: self.called_off)
        if role.serves:
            # such a process works for as long as the chief does
            limits = attrs.evolve(limits, silence=None, total=None)
        job = attrs.evolve(self.task.job, folder=self.task.job.folder / role.folder)
        task = attrs.evolve(
            self.task, job=job, save_to=self.task.save_to if role.is_chief else None
        )
        environment = environment_of(role, self.environment, len(job.machine.gpus))
        outcome = attrs.evolve(cluster.spawn, limits=limits)(task, environment, tell)
        with self.lock:
            end = RoleEnd(
                role=role, outcome=outcome, metrics=metrics,
                called_off=outcome.message is None and outcome.cause == self.called_off,
                seconds=time.monotonic() - self.begun,
            )  # fmt: skip
            self.ends.append(end)
            if end.failed:
                self.end_others(cluster.loss_seconds)
            elif role.is_chief:
                self.end_others(cluster.served_seconds if role.coordinated else cluster.end_seconds)

    def end_others(self, seconds: float) -> None:
        """End the roles that still run after this many seconds, unless an earlier end is set."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)


def _outcome(ends: Sequence[RoleEnd], seconds: float, computed: float) -> ProcessOutcome:
    """Return the chief's outcome, or why the training failed: what went wrong first.

    :param computed: the CPU seconds of all processes together.
    """
    [chief] = [end for end in ends if end.role.is_chief]
    failed = [end for end in ends if end.failed]
    left_behind = tuple(dict.fromkeys(each for end in ends for each in end.outcome.left_behind))
    if failed:
        first = failed[0]
        outcome = attrs.evolve(first.outcome, left_behind=left_behind, seconds=seconds)
        return attrs.evolve(outcome, message=None, cause=first.cause)
    chief = attrs.evolve(chief, outcome=attrs.evolve(chief.outcome, left_behind=left_behind))
    late = [end.role.name for end in ends if end.called_off and not end.role.serves]
    if late:
        cause = f"{chief.role.name} has trained, but {' and '.join(late)} did not end"
        return attrs.evolve(chief.outcome, message=None, cause=cause, seconds=seconds)
    report = chief.outcome.message
    assert isinstance(report, RunReport)
    report = attrs.evolve(report, cpu_seconds=computed)
    return attrs.evolve(chief.outcome, message=report, seconds=seconds)


def _computed_seconds() -> float:
    """Return the CPU seconds of all processes that this one waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@attrs.frozen(kw_only=True)
class Role(Cluster):
    """One process of a cluster on this machine. The figures of its chief are the training's."""

    @property
    def serves(self) -> bool:
        """Whether it only works for the chief."""
        return self.coordinated and not self.is_chief

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
    addresses: dict[str, tuple[str, ...]] = {}
    for (job, _), address in zip(places, free_addresses(len(places)), strict=True):
        addresses[job] = (*addresses.get(job, ()), address)
    return tuple(Role(addresses=addresses, job=job, index=index) for job, index in places)


def free_addresses(count: int) -> tuple[str, ...]:
    """Return this many different "host:port" of this machine that are free now."""
    with contextlib.ExitStack() as stack:
        # all stay open until the last is chosen, so that none is chosen twice
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return tuple(f"{LOOPBACK}:{each.getsockname()[1]}" for each in sockets)


def environment_of(role: Role, environment: Mapping[str, str], gpus: int) -> dict[str, str]:
    """Return the environment of a role's process: TF_CONFIG, and its share of the GPUs.

    :param gpus: the number of GPUs of this machine.
    """
    config = {"cluster": role.addresses, "task": {"type": role.job, "index": role.index}}
    share = _gpu_share(role, environment.get(GPUS), gpus)
    return {**environment, **share, "TF_CONFIG": json.dumps(config)}


def _gpu_share(role: Role, visible: str | None, gpus: int) -> dict[str, str]:
    """Return the variable that gives each computing role its own GPUs; too few are shared."""
    if not gpus:
        return {}
    workers = role.workers
    if (role.job, role.index) not in workers:
        return {GPUS: "-1"}
    ours = visible.split(",") if visible else [str(index) for index in range(gpus)]
    each = len(ours) // len(workers)
    if not each:
        return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return {GPUS: ",".join(ours[role.rank * each : (role.rank + 1) * each])}
