"""Check the addresses of a cluster, and report that this process waits for the others."""

from __future__ import annotations

import errno
import socket

import attrs

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster, ClusterOptions
from tfopt_core.records.messages import ClusterJoining, Tell


@attrs.define(eq=False)
class Joining:
    """The `run.join(cluster)` that the owner of a strategy calls; it keeps the cluster.

    TensorFlow waits for the other processes in native code and blocks all other code of this
    process. So the parent process is told first, and keeps the time.
    """

    tell: Tell
    seconds: float
    cluster: Cluster | None = None

    @classmethod
    def under(cls, options: ClusterOptions | None, tell: Tell) -> Joining:
        """For a process with these options."""
        return cls(tell, ClusterOptions().join_seconds if options is None else options.join_seconds)

    def __call__(self, cluster: Cluster) -> None:
        """Check this process' address and tell the parent that it waits for the others.

        :raises ClusterError: if this process' address is taken or is none of this machine.
        """
        check_address(cluster)
        self.cluster = cluster
        self.tell(ClusterJoining(cluster, self.seconds))


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
            raise ClusterError(_why(cluster, port, error)) from error
    try:
        socket.getaddrinfo(host.strip("[]"), int(port))
    except OSError as error:
        raise ClusterError(f'{cluster.name}: the host "{host}" is unknown: {error}') from error


def _why(cluster: Cluster, port: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{cluster.name}: the port {port} is taken by another process; end it, or give "
            f"{cluster.name} another address"
        )
    return f"{cluster.name}: cannot listen on port {port}: {error.strerror or error}"
