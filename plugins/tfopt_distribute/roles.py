"""Which process of a cluster this one is: how that is said, checked, and TensorFlow's resolvers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import tf

NO_STEP = "this is a Slurm job, but no step of it; start the training by `srun tfopt train ...`"
# Which of the addresses of the recipe is this process' own.
ADDRESS_INDEX = "TFOPT_ADDRESS_INDEX"
_ADDRESS = re.compile(r"(?P<host>[^\s:/]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def is_address(text: str) -> bool:
    """Whether it reads `host:port`."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match["port"]) < 2**16


def checked_tf_config(text: str, jobs: Sequence[str]) -> None:
    """Check what TensorFlow would otherwise find out by waiting.

    :param jobs: the roles that the strategy has.
    :raises PluginRefused: for a TF_CONFIG that does not name this process' place in a cluster of
        these roles.
    """
    example = '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}'
    try:
        config = json.loads(text)
    except ValueError as error:
        raise PluginRefused(f"TF_CONFIG is no JSON ({error}); write {example}") from error
    cluster = config.get("cluster") if isinstance(config, dict) else None
    task = config.get("task") if isinstance(config, dict) else None
    if not isinstance(cluster, dict) or not cluster:
        raise PluginRefused(f'TF_CONFIG has no "cluster"; write {example}')
    _check_cluster(cluster, jobs)
    if not isinstance(task, dict) or not {"type", "index"} <= set(task):
        raise PluginRefused(
            f'TF_CONFIG does not say which "task" this process is, by type and index; write '
            f"{example}"
        )
    _check_task(task["type"], task["index"], cluster, jobs)


def _check_cluster(cluster: Mapping[str, Any], jobs: Sequence[str]) -> None:
    for job, addresses in cluster.items():
        if job not in jobs:
            raise PluginRefused(f'TF_CONFIG names the job "{job}", {_has_only(jobs)}')
        if not isinstance(addresses, list) or not all(
            isinstance(address, str) and is_address(address) for address in addresses
        ):
            raise PluginRefused(
                f'TF_CONFIG must give the job "{job}" a list of addresses "host:port"'
            )
    every = [address for addresses in cluster.values() for address in addresses]
    twice = next((address for address in every if every.count(address) > 1), None)
    if twice is not None:
        raise PluginRefused(f"TF_CONFIG names {twice} twice; give each process a port of its own")
    if len(cluster.get("chief", ())) > 1:
        raise PluginRefused(
            f"TF_CONFIG names {len(cluster['chief'])} chiefs; there can be one, make the others "
            "workers"
        )
    needed = ("chief", "worker", "ps") if "ps" in jobs else ()
    for job in needed:
        if not cluster.get(job):
            raise PluginRefused(
                f'TF_CONFIG names no "{job}"; parameter-server needs a chief, which hands the '
                "steps out, workers and parameter servers (ps)"
            )
    if not needed and not any(cluster.values()):
        raise PluginRefused('TF_CONFIG names no address; list those of the "worker" processes')


def _check_task(job: Any, index: Any, cluster: Mapping[str, Any], jobs: Sequence[str]) -> None:
    if job not in jobs:
        raise PluginRefused(f'TF_CONFIG makes this process a "{job}", {_has_only(jobs)}')
    there = len(cluster.get(job, ()))
    if isinstance(index, str) and index.isdecimal():
        index = int(index)  # as TensorFlow reads it
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < there:
        raise PluginRefused(
            f'TF_CONFIG makes this process {job} {json.dumps(index)}, but its "cluster" has '
            f"{there} of them, counted from 0; correct the task's index"
        )


def _has_only(jobs: Sequence[str]) -> str:
    mends = {"evaluator": "validation runs within the training", "ps": "use parameter-server"}
    words = ", ".join(f'"{job}"' for job in jobs)
    others = "; ".join(f'for "{job}": {mend}' for job, mend in mends.items() if job not in jobs)
    return f"and this strategy knows only {words} ({others})"


def slurm_jobs(jobs: Mapping[str, int | None], environment: Mapping[str, str]) -> dict[str, int]:
    """How many of the step's tasks take which role.

    :param jobs: see `resolver`.
    :raises PluginRefused: if the step has another number of tasks than the roles need.
    """
    told = environment.get("SLURM_STEP_NUM_TASKS", "")
    if not told.isdecimal():
        raise PluginRefused(NO_STEP)
    return _shared_out(jobs, int(told), "the Slurm step has", "tasks; set --ntasks")


def _shared_out(jobs: Mapping[str, int | None], there: int, begin: str, end: str) -> dict[str, int]:
    """The number of each role, so that together they are as many as are there."""
    fixed = sum(number or 0 for number in jobs.values())
    open_ended = [job for job, number in jobs.items() if number is None]
    least = fixed + len(open_ended)
    if there < least or (not open_ended and there != fixed):
        roles = ", ".join(
            f"{'at least 1' if number is None else number} {job}" for job, number in jobs.items()
        )
        raise PluginRefused(
            f"{begin} {there} {end} to {'at least ' if open_ended else ''}{least}: {roles}"
        )
    return {job: there - fixed if number is None else number for job, number in jobs.items()}


def own_place(
    addresses: Sequence[str], jobs: Mapping[str, int | None], environment: Mapping[str, str]
) -> tuple[str, int, dict[str, list[str]]]:
    """This process' job and index by a list of addresses, and the addresses by job.

    :param addresses: of all processes, role by role in the order of `jobs`.
    :raises PluginRefused: if there are too few or too many, or it is unclear which is this one's.
    """
    numbers = _shared_out(jobs, len(addresses), "there are", 'addresses; set "addresses"')
    roles = [(job, index) for job, number in numbers.items() for index in range(number)]
    by_job: dict[str, list[str]] = {}
    for (job, _), address in zip(roles, addresses, strict=True):
        by_job.setdefault(job, []).append(address)
    return *roles[_own_index(addresses, environment)], by_job


def _own_index(addresses: Sequence[str], environment: Mapping[str, str]) -> int:
    told = environment.get(ADDRESS_INDEX)
    if told is not None:
        if not told.isdecimal() or int(told) >= len(addresses):
            raise PluginRefused(
                f'{ADDRESS_INDEX} is "{told}"; set it to the place of this process\' address in '
                f'"addresses", 0 to {len(addresses) - 1}'
            )
        return int(told)
    names = _names_of_this_machine()
    hosts = [address.rpartition(":")[0].strip("[]").lower() for address in addresses]
    own = [index for index, host in enumerate(hosts) if host in names]
    if len(own) == 1:
        return own[0]
    found = "none" if not own else f"{len(own)}"
    raise PluginRefused(
        f'{found} of the "addresses" are of this machine, so it is unclear which is this '
        f"process' own; set the environment variable {ADDRESS_INDEX} to its place, counted from 0"
    )


def _names_of_this_machine() -> frozenset[str]:
    import psutil

    name = socket.gethostname().lower()
    interfaces: Iterable[Any] = psutil.net_if_addrs().values()
    numbers = {one.address.partition("%")[0].lower() for found in interfaces for one in found}
    return frozenset(
        {name, name.partition(".")[0], socket.getfqdn().lower(), "localhost"} | numbers
    )


ClusterKind = Literal["auto", "tf-config", "slurm", "addresses"]
PROTOCOL = "grpc"


def cluster_kind(
    asked: ClusterKind, environment: Mapping[str, str], addresses: Sequence[str]
) -> Literal["tf-config", "slurm", "addresses"]:
    """What describes the cluster.

    :raises PluginRefused: if nothing does, or what is asked for is not there.
    """
    there: dict[Literal["tf-config", "slurm", "addresses"], bool] = {
        "tf-config": bool(environment.get("TF_CONFIG")),
        "slurm": "SLURM_PROCID" in environment,
        "addresses": bool(addresses),
    }
    if asked != "auto":
        if there[asked]:
            return asked
        missing = {
            "tf-config": "TF_CONFIG is not set; set it, or start all workers on this machine by "
            "`tfopt launch`",
            "slurm": "SLURM_PROCID is not set; start the training by `srun` within a Slurm job",
            "addresses": 'there are no addresses; set addresses = ["host:port", ...]',
        }
        raise PluginRefused(f'cluster = "{asked}", but {missing[asked]}')
    for kind, is_there in there.items():
        if is_there:
            return kind
    if "SLURM_JOB_ID" in environment:
        raise PluginRefused(NO_STEP)
    raise PluginRefused(
        'needs TF_CONFIG, Slurm or "addresses", found none; `tfopt launch` starts all workers on '
        "this machine"
    )


def resolver(
    *,
    asked: ClusterKind,
    roles: Sequence[str],
    jobs: Mapping[str, int | None],
    addresses: Sequence[str],
    port: int,
    environment: Mapping[str, str],
) -> Any:
    """A `tf.distribute.cluster_resolver.ClusterResolver` that knows this process' role.

    :param roles: the jobs that TF_CONFIG may name.
    :param jobs: how many processes of which job there are under Slurm and by addresses, in the
        order of `addresses`; None stands for all that are left. Nothing else is guessed.
    :param port: the first port that processes under Slurm listen on.
    :raises PluginRefused: before TensorFlow would wait for a cluster that cannot come.
    """
    kind = cluster_kind(asked, environment, addresses)
    if kind == "tf-config":
        checked_tf_config(environment["TF_CONFIG"], roles)
        return tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer=PROTOCOL)
    if kind == "slurm":
        return _of_slurm(slurm_jobs(jobs, environment), port)
    job, index, by_job = own_place(addresses, jobs, environment)
    return _simple(tf.train.ClusterSpec(by_job), job, index)


def _of_slurm(jobs: Mapping[str, int], port: int) -> Any:
    """The cluster as TensorFlow's resolver reads it from Slurm's variables.

    The GPUs of a process are those that Slurm shows it. TensorFlow's resolver would share out all
    GPUs of the node instead, needs `nvidia-smi` for it, and fails on a node without any.
    """
    try:
        # one pretended GPU each, since the resolver gives a task that has none no address
        tasks = sum(jobs.values())
        read = tf.distribute.cluster_resolver.SlurmClusterResolver(
            jobs=dict(jobs), port_base=port, gpus_per_node=tasks, gpus_per_task=1,
            auto_set_gpu=False, rpc_layer=PROTOCOL,
        )  # fmt: skip
        cluster = read.cluster_spec()
        job, index = read.get_task_info()
    except (RuntimeError, ValueError) as error:
        raise PluginRefused(
            f"Slurm's variables do not describe the cluster ({error}); start the training by "
            "`srun` within a Slurm job, or set TF_CONFIG"
        ) from error
    return _simple(cluster, job, index)


def _simple(cluster: Any, job: str, index: int) -> Any:
    # unlike TFConfigClusterResolver this one counts no GPUs itself
    gpus = len(tf.config.list_physical_devices("GPU"))
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster,
        task_type=job,
        task_id=index,
        num_accelerators={"GPU": gpus} if gpus else {},
        rpc_layer=PROTOCOL,
    )
