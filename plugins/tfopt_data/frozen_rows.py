"""All examples of a data set with features in the place of inputs, computed before the training."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfopt_core.toolkit import np, tf

# The small kernels of a network leave cores idle that a second batch can use. TensorFlow's own
# threads do not wait here: a call from one of them needs another one, and there may be none.
WORKERS = 2


def can_be_rows(element_spec: Any, *, batched: bool) -> bool:
    """Return whether all leaves of such elements are tensors that can stand in one array."""
    return all(
        isinstance(spec, tf.TensorSpec)
        and (spec.shape[1:] if batched else spec.shape).is_fully_defined()
        for spec in tf.nest.flatten(element_spec)
    )


def computed_rows(batches: Any, compute: Callable[..., Any]) -> Any:
    """Return what `compute` makes of all batches, as tensors (examples, ...) in the CPU's memory.

    :param batches: a `tf.data.Dataset`, read once.
    :param compute: takes a batch and returns a structure of tensors (examples, ...).
    """
    leaves: list[list[Any]] = []
    structure: Any = None
    for structure in _in_order(batches.prefetch(WORKERS), compute):
        flat = tf.nest.flatten(structure)
        leaves = leaves or [[] for _ in flat]
        for parts, leaf in zip(leaves, flat, strict=True):
            parts.append(leaf.numpy())
    with tf.device("CPU:0"):
        # one leaf after another, so that its parts are freed before the next is joined
        rows = [tf.convert_to_tensor(np.concatenate(leaves.pop(0))) for _ in flat]
    return tf.nest.pack_sequence_as(structure, rows)


def _in_order(batches: Any, compute: Callable[..., Any]) -> Iterator[Any]:
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Any] = deque()
        for batch in batches:
            waiting.append(pool.submit(compute, *batch))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
