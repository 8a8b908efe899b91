"""Measure the most that this machine can do, and count what a training step has to do.

    python -m peers.limits OUT.json [--smoke]

The peak of matrix products is measured as `tfopt diagnose` does, in TensorFlow on all cores; the
memory bandwidth by adding two vectors that are larger than any cache; the decode rate by reading,
decoding and scaling the JPEG files of the race on all cores. It takes about 20 seconds; with
--smoke, to see that it runs, far less.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

DTYPES = ("float32", "bfloat16")
PEAK_SECONDS = 1.0
BANDWIDTH_FLOATS, BANDWIDTH_RUNS = 32 * 2**20, 15
DECODE_RUNS, DECODE_SIDE = 4, 96


@attrs.frozen
class Limits:
    """What this machine can do at most.

    :param operations: floating-point operations a second in matrix products, by type.
    :param bytes_per_second: of main memory, reads and writes together.
    :param pictures_per_second: JPEG files of the race read, decoded and scaled on all cores.
    """

    operations: dict[str, float]
    bytes_per_second: float
    pictures_per_second: float

    def peak(self, exact: bool) -> float:
        """Return the operations a second in float32, or in the fastest type."""
        return self.operations["float32"] if exact else max(self.operations.values())


@attrs.frozen
class Work:
    """What an epoch of one line has to do.

    :param step_operations: of a full batch's matrix products and convolutions, None if they cannot
        be counted.
    :param epoch_bytes: of the examples, each read once.
    """

    steps: int
    examples: int
    parameters: int
    step_operations: float | None
    epoch_bytes: float

    @classmethod
    def of(cls, compiled: dict[str, Any]) -> Work:
        """Return the work that `prepare` has counted."""
        examples = int(compiled["examples"])
        return cls(
            steps=int(compiled["steps"]),
            examples=examples,
            parameters=int(compiled["parameters"]),
            step_operations=compiled["step_operations"],
            epoch_bytes=examples * float(compiled["example_bytes"]),
        )

    def epoch_operations(self, batch_size: int) -> float | None:
        """Return the operations of an epoch, whose last batch may be smaller."""
        if self.step_operations is None:
            return None
        return self.step_operations * self.examples / batch_size

    def least_seconds(self, limits: Limits, exact: bool, batch_size: int) -> float | None:
        """Return the fewest seconds of an epoch: its operations at the peak, or, where that takes
        longer, its examples read once from memory.

        :param exact: whether all is computed in float32.
        """
        operations = self.epoch_operations(batch_size)
        if operations is None:
            return None
        return max(operations / limits.peak(exact), self.epoch_bytes / limits.bytes_per_second)


def step_operations(model: Any, batch: Any) -> float | None:
    """Return the floating-point operations of a compiled model's training step on this batch.

    Counted are the matrix products and convolutions in the graph of Keras' own step, forward and
    backward; a multiplication with its addition counts as two. None if they cannot be counted.
    """
    from tfopt_core.diagnosis.matmul import operations_of
    from tfopt_core.toolkit.graphs import traced_step

    return operations_of(traced_step(model, batch).graph)


def measure(smoke: bool = False) -> Limits:
    """Return the limits of this machine; with `smoke` only see whether that runs."""
    from tfopt_core.diagnosis.matmul import matmul_peak

    seconds = 0.05 if smoke else PEAK_SECONDS
    return Limits(
        operations={dtype: matmul_peak(dtype, seconds) for dtype in DTYPES},
        bytes_per_second=memory_bandwidth(1 if smoke else BANDWIDTH_RUNS),
        pictures_per_second=decode_rate(1 if smoke else DECODE_RUNS, 64 if smoke else None),
    )


def memory_bandwidth(runs: int) -> float:
    """Return the bytes a second of an addition of two vectors, two reads and a write."""
    import tensorflow as tf

    left, right = tf.ones(BANDWIDTH_FLOATS), tf.ones(BANDWIDTH_FLOATS)
    total = tf.Variable(tf.zeros(BANDWIDTH_FLOATS))
    add = tf.function(lambda: total.assign(left + right))
    return 3 * 4 * BANDWIDTH_FLOATS / _best(lambda: add(), runs)


def decode_rate(runs: int, examples: int | None) -> float:
    """Return the JPEG files a second that are read, decoded and scaled, on all cores."""
    import tensorflow as tf
    from tfopt_workloads import clipart_jpeg

    files, labels = clipart_jpeg.build(examples=examples).train.source.value
    pictures = (
        tf.data.Dataset.from_tensor_slices((files, labels))
        .map(clipart_jpeg.decoder(DECODE_SIDE), num_parallel_calls=tf.data.AUTOTUNE)
        .batch(32)
    )

    def decode() -> None:
        for _ in pictures:
            pass

    return len(labels) / _best(decode, runs)


def _best(function: Callable[[], Any], runs: int) -> float:
    """Return the seconds of the fastest call: other processes can only slow one down."""
    function()
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main(out: Path, *options: str) -> None:
    """Measure, and write the limits."""
    limits = measure(smoke="--smoke" in options)
    out.write_text(json.dumps(attrs.asdict(limits)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
