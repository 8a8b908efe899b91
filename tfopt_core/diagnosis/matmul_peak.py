"""Measure how fast this machine multiplies matrices, the most that a model could reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.hooks import Machine

# Sizes are tried in order until one product takes long enough for the clock.
SIZES = (1024, 2048, 4096, 8192)
PRODUCT_SECONDS = 0.005
RUNS = 5
# The CUDA compute capability from which tensor cores support a type.
_CAPABILITIES = {"float16": (7, 0), "bfloat16": (8, 0)}


def dtypes_worth_measuring(machine: Machine, policy: str) -> tuple[str, ...]:
    """Return float32, the type that the policy computes in, and those that the hardware
    supports."""
    dtypes = ["float32", policy.removeprefix("mixed_")]
    if machine.gpus:
        weakest = min(gpu.compute_capability for gpu in machine.gpus)
        dtypes += [dtype for dtype, least in _CAPABILITIES.items() if weakest >= least]
    elif machine.has_bfloat16_cpu:
        dtypes.append("bfloat16")
    known = ("float32", "float16", "bfloat16", "float64")
    return tuple(dtype for dtype in dict.fromkeys(dtypes) if dtype in known)


@attrs.define(eq=False)
class MatmulPeak:
    """Times products of square matrices in one graph, on all threads.

    :param sync: waits for the device, None on a CPU.
    """

    dtype: str
    sizes: Sequence[int] = SIZES
    sync: Callable[[], None] | None = None
    now: Callable[[], int] = perf_counter_ns
    size: int = 0
    _function: Any = None

    def warm(self) -> None:
        """Choose the first size whose product takes long enough."""
        for size in self.sizes:
            self.size, self._function = size, _products(size, self.dtype)
            self._timed(2)
            if min(self._timed(2), self._timed(2)) / 2 >= PRODUCT_SECONDS:
                return

    def run(self, seconds: float) -> float:
        """Return operations a second, the best of some runs that take about `seconds` in all.

        The best run counts, since other processes can only slow a run down.
        """
        one = self._timed(1)
        count = max(2, round(seconds / RUNS / max(one, 1e-9)))
        return 2.0 * self.size**3 * count / min(self._timed(count) for _ in range(RUNS))

    def _timed(self, count: int) -> float:
        import tensorflow as tf

        number = tf.constant(count)
        begin = self.now()
        self._function(number)
        if self.sync is not None:
            self.sync()
        return (self.now() - begin) / 1e9


def _products(size: int, dtype: str) -> Any:
    import tensorflow as tf

    # a mean of ones is one, so any number of products neither overflows nor vanishes
    left = tf.fill((size, size), tf.cast(1 / size, dtype))

    def products(count: Any) -> Any:
        _, product = tf.while_loop(
            lambda done, _: done < count,
            lambda done, product: (done + 1, tf.matmul(left, product)),
            (tf.constant(0), tf.ones((size, size), dtype)),
            parallel_iterations=1,
        )
        return product[0, 0]

    return tf.function(products, autograph=False)
