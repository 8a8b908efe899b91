"""Run TensorFlow's server in a process that trains nothing itself, and end a distributed training.

Chief and servers communicate through files beside each server, which the chief reads and writes
by TensorFlow operations placed on the server. TensorFlow's own errors name no cause.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfopt_core.errors import ClusterError
from tfopt_core.hooks.context import Cluster, Serve
from tfopt_core.lazy import tf
from tfopt_core.training.strategy import check_address

POLL_SECONDS = 0.5
CONNECT_SECONDS = 2.0
# A chief that does not answer this many polls in a row is gone.
GONE_AFTER = 4
FACTS, DONE = "facts.json", "done"
# A folder in the temporary directory without this file is not tfopt's, and is never removed.
MARKER = "made-by-tfopt"
# How long a chief waits for the workers to end before it ends.
SEE_OFF_SECONDS, WAIT_SECONDS = 15.0, 0.1
# A killed process closes its sockets one after the other: the listening one may still answer when
# other processes notice that their connection is closed.
DYING_SECONDS = 2.0


def serve(
    role: Serve,
    facts: Mapping[str, Any],
    join_seconds: float,
    seen: Callable[[], None],
) -> None:
    """Serve the chief until it signals that the training has ended.

    :param facts: facts that the chief compares with its own.
    :param join_seconds: how long to wait for the chief to start.
    :param seen: called once the chief answers.
    :raises ClusterError: if the chief does not start, or is gone before the training has ended.
    """
    cluster = role.cluster
    check_address(cluster)
    place = _own_folder(cluster)
    try:
        (place / FACTS).write_text(json.dumps(dict(facts)), encoding="utf-8")
        server = tf.distribute.Server(
            tf.train.ClusterSpec({job: list(hosts) for job, hosts in cluster.addresses.items()}),
            job_name=cluster.job, task_index=cluster.index, protocol=role.protocol, start=True,
        )  # fmt: skip
        _await_end(cluster, place / DONE, join_seconds, seen=seen)
        del server
    finally:
        _remove(place)


def _await_end(
    cluster: Cluster,
    done: Path,
    join_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    seen: Callable[[], None] = lambda: None,
) -> None:
    chief = cluster.addresses["chief"][0]
    waited, missed, came = 0.0, 0, False
    while not done.exists():
        if answers(chief):
            if not came:
                seen()
            came, missed = True, 0
        elif came:
            missed += 1
        if missed >= GONE_AFTER:
            raise ClusterError(f"the chief ({chief}) is gone before the training has ended")
        if not came and waited >= join_seconds:
            raise ClusterError(f"the chief ({chief}) did not come within {join_seconds:g} s")
        sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def answers(address: str) -> bool:
    """Return whether a process listens at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            return True
    except (OSError, ValueError, OverflowError):  # the latter two: it is no address
        return False


def facts_of_servers(cluster: Cluster) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the facts of each server, read by the chief.

    :raises ClusterError: for a server that was not started by tfopt.
    """
    for name, device, place in _servers(cluster):
        with tf.device(device):
            try:
                text = tf.io.read_file(str(place / FACTS)).numpy()
            except tf.errors.NotFoundError as error:
                raise ClusterError(
                    f"{name} was not started by tfopt; start it by `tfopt train` too"
                ) from error
        yield name, json.loads(text)


def _servers(cluster: Cluster) -> Iterator[tuple[str, str, Path]]:
    for job in ("worker", "ps"):
        for index, _ in enumerate(cluster.addresses.get(job, ())):
            server = Cluster(addresses=cluster.addresses, job=job, index=index)
            device = f"/job:{job}/replica:0/task:{index}/device:CPU:0"
            yield server.name, device, _folder(server)


def _folder(cluster: Cluster) -> Path:
    """Return a server's folder: at a fixed path, so that a chief on another machine knows it."""
    addresses = {job: list(hosts) for job, hosts in cluster.addresses.items()}
    digest = hashlib.sha256(json.dumps(addresses, sort_keys=True).encode()).hexdigest()[:16]
    return Path("/tmp") / f"tfopt-{digest}-{cluster.job}-{cluster.index}"


def _own_folder(cluster: Cluster) -> Path:
    """Return a new folder that only this user may write to, marked as tfopt's.

    :raises ClusterError: if the folder exists and is not tfopt's, or belongs to another user.
    """
    place = _folder(cluster)
    try:
        if place.is_symlink() or (place.exists() and place.stat().st_uid != os.getuid()):
            raise ClusterError(f'"{place}" belongs to another user; remove it')
        # this process has the port, so no other server uses the folder
        _remove(place)
        if place.exists():
            raise ClusterError(f'"{place}" was not made by tfopt; remove it')
        place.mkdir(mode=0o700)
        (place / MARKER).touch()
    except OSError as error:
        raise ClusterError(f'cannot write "{place}": {error.strerror or error}') from error
    return place


def _remove(place: Path) -> None:
    """Remove a folder that tfopt has made, or an empty folder, and nothing else."""
    if (place / MARKER).is_file():
        shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):
        place.rmdir()


@contextlib.contextmanager
def ending_together(cluster: Cluster | None) -> Iterator[None]:
    """Turn errors that another process' end has caused into a `ClusterError`.

    After a training that ended well, a chief tells its servers so and waits for the workers to end:
    they would take the end of the chief's process for a failure.

    :raises ClusterError: naming every process that does not answer any more.
    """
    try:
        yield
    except (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.InternalError,
    ) as error:
        until = time.monotonic() + DYING_SECONDS
        while not (gone := who_is_gone(cluster)):
            if cluster is None or time.monotonic() > until:
                raise
            time.sleep(WAIT_SECONDS)
        raise ClusterError(loss_in_words(gone)) from error
    if cluster is None or not cluster.is_chief:
        return
    if cluster.coordinated:
        for _, device, place in _servers(cluster):  # those that are gone are skipped
            with contextlib.suppress(tf.errors.OpError), tf.device(device):
                tf.io.write_file(str(place / DONE), "")
    until = time.monotonic() + SEE_OFF_SECONDS
    while any(map(answers, cluster.others.values())) and time.monotonic() < until:
        time.sleep(WAIT_SECONDS)


def who_is_gone(cluster: Cluster | None) -> list[str]:
    """Return the other processes that do not answer, as `worker 1 (10.0.0.2:2222)`."""
    others = {} if cluster is None else cluster.others
    return [f"{name} ({address})" for name, address in others.items() if not answers(address)]


def loss_in_words(gone: Sequence[str]) -> str:
    """Return the message that the training cannot continue without these processes."""
    verb = "is" if len(gone) == 1 else "are"
    return (
        f"{', '.join(gone)} {verb} gone, so this training cannot continue; once all processes are "
        "there again, --resume continues from its last checkpoint"
    )
