"""A process that trains nothing itself: TensorFlow's server, until the chief has ended.

What chief and servers tell each other goes through files beside each server, which the chief
reads and writes by TensorFlow's own operations, placed on the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster, Serve
from tfopt_core.training.strategy.addresses import check_address

POLL_SECONDS = 0.5
CONNECT_SECONDS = 2.0
# A chief that misses so many polls in a row is gone.
GONE_AFTER = 4
FACTS, DONE = "facts.json", "done"
# A folder in the temporary directory without it is not tfopt's, and never removed.
MARKER = "made-by-tfopt"


def serve(
    role: Serve,
    facts: Mapping[str, Any],
    join_seconds: float,
    seen: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Serve the chief until it says that the training has ended.

    :param facts: what the chief compares with its own.
    :param join_seconds: how long to wait for the chief to start.
    :param seen: called once the chief answers.
    :raises ClusterError: if the chief does not come, or is gone before it has said so.
    """
    import tensorflow as tf

    cluster = role.cluster
    check_address(cluster)
    place = _own_folder(cluster)
    try:
        (place / FACTS).write_text(json.dumps(dict(facts)), encoding="utf-8")
        server = tf.distribute.Server(
            tf.train.ClusterSpec({job: list(found) for job, found in cluster.addresses.items()}),
            job_name=cluster.job, task_index=cluster.index, protocol=role.protocol, start=True,
        )  # fmt: skip
        _await_end(cluster, place / DONE, join_seconds, sleep, seen)
        del server
    finally:
        _remove(place)


def _await_end(
    cluster: Cluster,
    done: Path,
    join_seconds: float,
    sleep: Callable[[float], None],
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
    """Whether anybody listens at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
            return True
    except (OSError, ValueError, OverflowError):  # the latter two: it is no address
        return False


def said_by_servers(cluster: Cluster) -> Iterator[tuple[str, dict[str, Any]]]:
    """The facts of each server by its name, read by the chief.

    :raises ClusterError: for a server that was not started by tfopt.
    """
    import tensorflow as tf

    for name, device, place in _servers(cluster):
        with tf.device(device):
            try:
                text = tf.io.read_file(str(place / FACTS)).numpy()
            except tf.errors.NotFoundError as error:
                raise ClusterError(
                    f"{name} says nothing of itself; start it by `tfopt train` too"
                ) from error
        yield name, json.loads(text)


def dismiss_servers(cluster: Cluster) -> None:
    """Tell every server that the training has ended. One that is gone needs not be told."""
    import tensorflow as tf

    for _, device, place in _servers(cluster):
        with contextlib.suppress(tf.errors.OpError), tf.device(device):
            tf.io.write_file(str(place / DONE), "")


def _servers(cluster: Cluster) -> Iterator[tuple[str, str, Path]]:
    for job in ("worker", "ps"):
        for index, _ in enumerate(cluster.addresses.get(job, ())):
            one = Cluster(addresses=cluster.addresses, job=job, index=index)
            device = f"/job:{job}/replica:0/task:{index}/device:CPU:0"
            yield one.name, device, _folder(one)


def _folder(cluster: Cluster) -> Path:
    """Known to the chief, on another machine perhaps, without being told: so a fixed place."""
    addresses = {job: list(found) for job, found in cluster.addresses.items()}
    digest = hashlib.sha256(json.dumps(addresses, sort_keys=True).encode()).hexdigest()[:16]
    return Path("/tmp") / f"tfopt-{digest}-{cluster.job}-{cluster.index}"


def _own_folder(cluster: Cluster) -> Path:
    """Return a new folder that nobody else may write to, with the mark of tfopt.

    :raises ClusterError: if one is there that tfopt has not made, or that belongs to somebody else.
    """
    place = _folder(cluster)
    try:
        if place.is_symlink() or (place.exists() and place.stat().st_uid != os.getuid()):
            raise ClusterError(f'"{place}" belongs to somebody else; remove it')
        # the port is ours, so what an earlier server left there is nobody's
        _remove(place)
        if place.exists():
            raise ClusterError(f'"{place}" was not made by tfopt; remove it')
        place.mkdir(mode=0o700)
        (place / MARKER).touch()
    except OSError as error:
        raise ClusterError(f'cannot write "{place}": {error.strerror or error}') from error
    return place


def _remove(place: Path) -> None:
    """Remove a folder that tfopt has made, or an empty one, and nothing else."""
    if (place / MARKER).is_file():
        shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):
        place.rmdir()
