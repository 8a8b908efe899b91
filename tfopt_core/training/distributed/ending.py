"""End a distributed training: wait for the other processes, or name those that are lost.

TensorFlow's own errors name no cause.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster
from tfopt_core.training.distributed.serving import answers, dismiss_servers

# How long a chief waits for the workers to end before it ends.
SEE_OFF_SECONDS, POLL_SECONDS = 15.0, 0.1
# A killed process closes its sockets one after the other: the listening one may still answer when
# other processes notice that their connection is closed.
DYING_SECONDS = 2.0


@contextlib.contextmanager
def ending_together(cluster: Cluster | None) -> Iterator[None]:
    """Turn errors that another process' end has caused into a `ClusterError`.

    After a training that ended well, a chief tells its servers so and waits for the workers to end:
    they would take the end of the chief's process for a failure.

    :raises ClusterError: naming every process that does not answer any more.
    """
    import tensorflow as tf

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
            time.sleep(POLL_SECONDS)
        raise ClusterError(loss_in_words(gone)) from error
    if cluster is None or not cluster.is_chief:
        return
    if cluster.coordinated:
        dismiss_servers(cluster)
    until = time.monotonic() + SEE_OFF_SECONDS
    while any(map(answers, cluster.others.values())) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


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
