"""Time the all-reduce that sums a step's gradients over the replicas."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any

# Every process must make the same calls, so their number is fixed; the cold ones trace and connect.
COLD, TIMED = 2, 15


def communication_seconds(
    strategy: Any, model: Any, now: Callable[[], int] = perf_counter_ns
) -> float:
    """Return the median seconds of an all-reduce of values as large as the gradients.

    A step may overlap a part of it with computing, so this is the most that a step loses to it.
    All processes of the strategy must call it at once.
    """
    import tensorflow as tf

    shapes = [(variable.shape, variable.dtype) for variable in model.trainable_variables]

    def of_replica() -> Any:
        gradients = [tf.zeros(shape, dtype) for shape, dtype in shapes]
        replica = tf.distribute.get_replica_context()
        summed = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        # TensorFlow skips what is not used
        return tf.add_n([tf.reduce_sum(tf.cast(part, tf.float32)) for part in summed])

    reduce = tf.function(lambda: strategy.run(of_replica), autograph=False)
    seconds = []
    for _ in range(COLD + TIMED):
        begin = now()
        strategy.experimental_local_results(reduce())[0].numpy()
        seconds.append((now() - begin) / 1e9)
    return median(seconds[COLD:])
