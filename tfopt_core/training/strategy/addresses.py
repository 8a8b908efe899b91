"""The addresses of a cluster: whether this process' own is free, and which others it waits for."""

from __future__ import annotations

import errno
import socket

import attrs

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster, ClusterOptions
from tfopt_core.records.messages import ClusterJoining, Tell


@attrs.define(eq=False)
class Joining:
    """What a strategy's owner calls as `run.join(cluster)`; keeps the cluster.

    TensorFlow waits for the other processes in native code and lets nothing else of this process
    run meanwhile: so the parent process is told first, and keeps the time.
    """

    tell: Tell
    seconds: float
    cluster: Cluster | None = None

    @classmethod
    def under(cls, options: ClusterOptions | None, tell: Tell) -> Joining:
        """For a process with these options."""
        return cls(tell, ClusterOptions().join_seconds if options is None else options.join_seconds)

    def __call__(self, cluster: Cluster) -> None:
        """:raises ClusterError: if this process' address is taken or is none of this machine."""
        check_address(cluster)
        self.cluster = cluster
        self.tell(ClusterJoining(cluster, self.seconds))


def check_address(cluster: Cluster) -> None:
    """Find out before anybody waits that this process cannot be reached where it should be.

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
            raise ClusterError(_why(cluster, port, error)) from error
    try:
        socket.getaddrinfo(host.strip("[]"), int(port))
    except OSError as error:
        raise ClusterError(f'{cluster.name}: nobody knows the host "{host}": {error}') from error


def _why(cluster: Cluster, port: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{cluster.name}: the port {port} is taken by another process; end it, or give "
            f"{cluster.name} another address"
        )
    return f"{cluster.name}: cannot listen on port {port}: {error.strerror or error}"
