"""How one of several processes ends: with the others, or with what it says of those that are gone.

TensorFlow's errors name no cause of their own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from tfopt_core.errors import ClusterError
from tfopt_core.hooks import Cluster
from tfopt_core.training.distributed.serving import answers, dismiss_servers

# How long a chief waits for the workers to end before it does.
SEE_OFF_SECONDS, POLL_SECONDS = 15.0, 0.1
# A process that is killed closes its sockets one after the other: the one that listens may still
# answer when the others learn of the end of a connection.
DYING_SECONDS = 2.0


@contextlib.contextmanager
def ending_together(cluster: Cluster | None) -> Iterator[None]:
    """Tell an error of the training from one that another process' end has caused.

    A chief tells its servers when the training has ended well, and waits for the workers to end:
    they would take the end of its own process for a failure.

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
    """The other processes that do not answer, as `worker 1 (10.0.0.2:2222)`."""
    others = {} if cluster is None else cluster.others
    return [f"{name} ({address})" for name, address in others.items() if not answers(address)]


def loss_in_words(gone: Sequence[str]) -> str:
    """That the training cannot go on without these, and what to do."""
    verb = "is" if len(gone) == 1 else "are"
    return (
        f"{', '.join(gone)} {verb} gone, so this training cannot go on; with --resume it goes on "
        "from its last checkpoint once all are there again"
    )
