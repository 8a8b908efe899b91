"""What a process says when another one is gone: TensorFlow's error names no cause of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tfopt_core.errors import ClusterError, describe
from tfopt_core.hooks import Cluster
from tfopt_core.training.distributed.serving import answers, dismiss_servers


@contextlib.contextmanager
def naming_who_is_gone(cluster: Cluster | None) -> Iterator[None]:
    """Tell an error of the training from one that another process' end has caused.

    A chief tells its servers when the training has ended well.

    :raises ClusterError: naming every process that does not answer any more.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        gone = [
            f"{name} ({address})"
            for name, address in (cluster.others if cluster else {}).items()
            if not answers(address)
        ]
        if not gone:
            raise
        names = ", ".join(gone)
        verb = "is" if len(gone) == 1 else "are"
        raise ClusterError(f"{names} {verb} gone: {describe(error)}") from error
    if cluster is not None and cluster.coordinated:
        dismiss_servers(cluster)
