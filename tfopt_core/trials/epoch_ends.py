"""How long the end of an epoch waits for the thread by which tf.data tunes an input pipeline.

The thread sleeps for periods that double from 10 ms to a minute, and the end of an iterator, which
waits for it, does not always wake it up (TensorFlow 2.21: it fails one time in 3 to 16).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfopt_core.lazy import tf
from tfopt_core.training.build import Built
from tfopt_core.training.loops.train_functions import loop_of

# So many iterators live so long; the thread then sleeps for 0.11 s more.
ITERATORS, LIFE_SECONDS, LEAST_WAIT = 48, 0.2, 0.05
# Each period is as long as all before it. An iterator that ends anywhere in one has lived for one
# and a half times its length in the mean, and half of it is left.
SHARE_LEFT, LONGEST_LEFT = 1 / 3, 30.0


def waiting_seconds(
    built: Built, epoch_seconds: float, splits: Collection[str] = ("train", "validation")
) -> float:
    """Return how long an epoch waits at its end, in the mean over epochs of about this length.

    :param epoch_seconds: how long it takes without that.
    :param splits: the data whose iterators end.
    """
    resident = {"train"} if loop_of(built).kind == "resident" else set()
    read = set(splits) - resident
    ends = sum(_ends_tuned(data) for split, data in built.run.datasets.items() if split in read)
    left = min(SHARE_LEFT * epoch_seconds, LONGEST_LEFT)
    return ends * share_that_waits() * left if ends else 0.0


def _ends_tuned(data: Any) -> bool:
    """Return whether each epoch ends an iterator over the data, and tf.data tunes them."""
    if not isinstance(data, tf.data.Dataset) or data.options().autotune.enabled is False:
        return False
    return bool(int(data.cardinality()) != tf.data.INFINITE_CARDINALITY)


@functools.cache
def share_that_waits() -> float:
    """Return the share of iterators whose end waits, of a few over a data set of its own."""
    data = tf.data.Dataset.range(1000).map(lambda number: number + 1)
    with ThreadPoolExecutor(ITERATORS) as pool:
        waits = list(pool.map(_seconds_to_end, [data] * ITERATORS))
    return sum(seconds > LEAST_WAIT for seconds in waits) / ITERATORS


def _seconds_to_end(data: Any) -> float:
    iterator = iter(data)
    next(iterator)
    time.sleep(LIFE_SECONDS)
    begun = time.perf_counter()
    del iterator
    return time.perf_counter() - begun
