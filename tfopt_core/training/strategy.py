"""The strategy of a run: build it first, and agree with the other processes of its cluster."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.errors import ClusterError, PluginError, describe
from tfopt_core.hooks.context import Cluster, ClusterOptions, Serve
from tfopt_core.hooks.stack import Stack
from tfopt_core.lazy import np, tf
from tfopt_core.private_api import why_without
from tfopt_core.training.job import Job
from tfopt_core.training.messages import ClusterJoined, ClusterJoining, Tell


def feeds_itself(strategy: Any) -> bool:
    """Return whether this process divides its own data set among its replicas.

    Each of several processes has its own data set. On devices of one CPU nothing has to be copied,
    and TensorFlow's iterator over several devices only costs time (half of a small step).
    """
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    devices = strategy.extended.worker_devices
    return isinstance(strategy, tf.distribute.MirroredStrategy) and all(
        "CPU" in device.upper() for device in devices
    )


# A strategy uses a few keys: one for its group of replicas, and some within it.
KEYS_OF_A_STRATEGY = 1_000


def apart_from_earlier_strategies() -> None:
    """Give the next MirroredStrategy other keys of collective operations than earlier ones.

    TensorFlow numbers them from the same key in each strategy, so that two of one process (of a
    dry build and a probe, for example) clash: "Shape mismatch in the collective instance".
    """
    if why_without("strategies-apart"):
        return
    tf.distribute.MirroredStrategy._collective_key_base += KEYS_OF_A_STRATEGY


def hide_one_device(model: Any, strategy: Any) -> None:
    """Have Keras train a model within the scope of a strategy of one device as without it.

    Keras would take a batch before each `fit` and `evaluate`, to build the model of it: an element
    of a generator is lost so, and a shuffle draws once more. Its steps are on the device all the
    same, within the scope.
    """
    if type(strategy) is tf.distribute.OneDeviceStrategy and not why_without("own-strategy"):
        model._distribute_strategy = None


def announce(cluster: Cluster, options: ClusterOptions | None, tell: Tell) -> None:
    """Check this process' address and tell the parent that it waits for the others.

    TensorFlow waits for the other processes in native code and blocks all other code of this
    process. So the parent process is told first, and keeps the time.

    :raises ClusterError: if this process' address is taken or is none of this machine.
    """
    check_address(cluster)
    tell(ClusterJoining(cluster, (options or ClusterOptions()).join_seconds))


def check_address(cluster: Cluster) -> None:
    """Check that this process can be reached at its address, before others wait for it.

    :raises ClusterError: naming the address and what is wrong with it.
    """
    host, _, port = cluster.address.rpartition(":")
    if not port.isdigit():
        raise ClusterError(
            f'{cluster.name}: "{cluster.address}" is no address; write it as "host:port"'
        )
    # TensorFlow itself listens on every address of the machine
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(port)))
        except OSError as error:
            why = f"cannot listen on port {port}: {error.strerror or error}"
            if error.errno == errno.EADDRINUSE:
                why = f"the port {port} is taken by another process; end it, or give "
                why += f"{cluster.name} another address"
            raise ClusterError(f"{cluster.name}: {why}") from error
    try:
        socket.getaddrinfo(host.strip("[]"), int(port))
    except OSError as error:
        raise ClusterError(f'{cluster.name}: the host "{host}" is unknown: {error}') from error


@attrs.frozen(eq=False)
class Joined:
    """A strategy that is built already, the processes it spans, and the plugins' states.

    `nanoseconds` is the time of building it, of waiting for the other processes and of agreeing
    with them, which a single process does not need.
    """

    strategy: Any
    cluster: Cluster | None
    states: dict[Any, dict[str, Any]]
    nanoseconds: int = 0


def join(job: Job, tell: Tell) -> Joined | Serve:
    """Build the strategy of a job that needs it first; waits for the other processes.

    :raises ClusterError: if the processes do not connect.
    :raises PluginError, PluginRefused: naming the strategy's owner.
    """
    spec = job.recipe.workload
    cluster: Cluster | None = None

    def joining(joined: Cluster) -> None:
        nonlocal cluster
        announce(joined, job.runtime.cluster, tell)
        cluster = joined

    stack = Stack(job.plugins)
    run = job.context(stack, epochs=spec.epochs or 0, batch_size=spec.batch_size, join=joining)
    try:
        strategy = stack.build_strategy(run)
    except PluginError as error:
        if isinstance(error.__cause__, ClusterError):
            raise error.__cause__ from error
        if isinstance(error.__cause__, tf.errors.OpError) and cluster is not None:
            cause = describe(error.__cause__)
            raise ClusterError(f"{cluster.name} could not join: {cause}") from error
        raise
    if isinstance(strategy, Serve):
        return strategy
    if not isinstance(strategy, tf.distribute.Strategy):
        raise ClusterError(
            f"build_strategy returned type {type(strategy).__name__}; return a "
            "tf.distribute.Strategy, or Serve in a process that only serves"
        )
    if cluster is not None:
        tell(ClusterJoined())
    return Joined(strategy, cluster, run.states)


_GATHERING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def exchanged(strategy: Any, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every worker's document, in the order of their ranks. All must call this at once.

    It uses TensorFlow's all-gather, which needs no other connection than the training.

    :param document: plain data, fit for JSON.
    """
    own = np.frombuffer(json.dumps(document).encode(), np.uint8).astype(np.int32)
    lengths = gathered(strategy, np.array([[len(own)]], np.int32))
    padded = np.zeros((1, int(lengths.max())), np.int32)
    padded[0, : len(own)] = own
    rows = gathered(strategy, padded)
    return [
        json.loads(row[: int(length)].astype(np.uint8).tobytes())
        for row, length in zip(rows, lengths.ravel(), strict=True)
    ]


def gathered(strategy: Any, row: Any) -> Any:
    """Return the rows of all workers, stacked. All must call this at once."""
    # each replica of a worker sends the same row
    replicas = len(strategy.extended.worker_devices)
    own = strategy.experimental_distribute_values_from_function(lambda _: tf.constant(row))
    if strategy not in _GATHERING:
        # one function for all calls: TensorFlow warns of functions that are traced again and again
        _GATHERING[strategy] = tf.function(
            lambda values: strategy.gather(values, axis=0), autograph=False, reduce_retracing=True
        )
    return _GATHERING[strategy](own).numpy()[::replicas]
