"""How long the end of an epoch waits for the thread by which tf.data tunes an input pipeline.

The thread sleeps for periods that double from 10 ms to a minute, and the end of an iterator, which
waits for it, does not always wake it up (TensorFlow 2.21: it fails one time in two to ten).
"""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfopt_core.training.build import Built
from tfopt_core.training.loops.train_functions import loop_of

# So many iterators live so long; the thread then sleeps for 0.11 s more.
ITERATORS, LIFE_SECONDS, A_WAIT = 48, 0.2, 0.05
# Within a period that is twice as long as the one before it, the mean of what is left of it is a
# third of the mean time until then.
SHARE_LEFT, LONGEST_LEFT = 1 / 3, 30.0


def waiting_seconds(built: Built, epoch_seconds: float) -> float:
    """Return how long an epoch waits at its end, in the mean over lengths of epochs.

    :param epoch_seconds: how long it takes without that.
    """
    resident = {"train"} if loop_of(built).kind == "resident" else set()
    ends = sum(
        _ends_tuned(data) for split, data in built.run.datasets.items() if split not in resident
    )
    left = min(SHARE_LEFT * epoch_seconds, LONGEST_LEFT)
    return ends * share_that_waits() * left if ends else 0.0


def _ends_tuned(data: Any) -> bool:
    """Return whether each epoch ends an iterator over the data, and tf.data tunes them."""
    import tensorflow as tf

    if not isinstance(data, tf.data.Dataset) or data.options().autotune.enabled is False:
        return False
    return bool(int(data.cardinality()) != tf.data.INFINITE_CARDINALITY)


@functools.cache
def share_that_waits() -> float:
    """Return the share of iterators whose end waits, of a few over a data set of its own."""
    import tensorflow as tf

    data = tf.data.Dataset.range(1000).map(lambda number: number + 1)
    with ThreadPoolExecutor(ITERATORS) as pool:
        waits = list(pool.map(_seconds_to_end, [data] * ITERATORS))
    return sum(seconds > A_WAIT for seconds in waits) / ITERATORS


def _seconds_to_end(data: Any) -> float:
    iterator = iter(data)
    next(iterator)
    time.sleep(LIFE_SECONDS)
    begun = time.perf_counter()
    del iterator
    return time.perf_counter() - begun
