"""Rows of examples, kept in memory or in files that are read at any place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.toolkit import np, tf

# Rows for which memory is taken first; it is doubled whenever they do not suffice.
FIRST_ROWS = 1024
# The small kernels of a network leave cores idle that a second batch can use. TensorFlow's own
# threads do not wait here: a call from one of them needs another one, and there may be none.
WORKERS = 2


class RowBlocks:
    """Rows that come block by block: iterating yields the leaves of a block, each (rows, ...).

    The structure of an example, the types and shapes of a row's leaves, the size of a batch and the
    number of rows so far are known once the first block, or the last, was read.
    """

    structure: Any = None
    specs: Sequence[tuple[Any, tuple[int, ...]]] = ()
    batch_size: int | None = None
    count: int = 0

    def __iter__(self) -> Iterator[list[Any]]:
        raise NotImplementedError


@attrs.frozen(eq=False)
class KeptRows:
    """Arrays (rows, ...) of all leaves of the examples, and how many belong to a batch.

    :param arrays: in memory, or mapped from files.
    :param structure: of an example; its leaves stand in the order of `arrays`.
    """

    arrays: tuple[Any, ...]
    structure: Any
    count: int
    batch_size: int

    @property
    def value(self) -> Any:
        """The arrays in the structure of an example."""
        return tf.nest.pack_sequence_as(self.structure, self.arrays)

    @property
    def size_bytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    def at(self, places: Any) -> Any:
        """Return the examples at these places, in a graph: read by Python from the arrays.

        :param places: an int64 tensor of any shape, whose axes come first in the result.
        """

        def read(places: Any) -> list[Any]:
            return [np.asarray(array[places]) for array in self.arrays]

        types = [tf.as_dtype(array.dtype) for array in self.arrays]
        leaves = tf.numpy_function(read, [places], types, stateful=False)
        for leaf, array in zip(leaves, self.arrays, strict=True):
            leaf.set_shape(places.shape.concatenate(array.shape[1:]))
        return tf.nest.pack_sequence_as(self.structure, leaves)


def in_memory(rows: RowBlocks, first: int = FIRST_ROWS) -> KeptRows:
    """Return all rows as arrays in memory.

    :param first: rows for which memory is taken first.
    """
    arrays: list[Any] = []
    end = 0
    for leaves in rows:
        start, end = end, end + len(leaves[0])
        if not arrays:
            room = max(first, end)
            arrays = [np.empty((room, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        if end > len(arrays[0]):
            for array in arrays:
                # not filled with zeros: rows beyond the last are never read
                array.resize((2 * end, *array.shape[1:]), refcheck=False)
        for array, leaf in zip(arrays, leaves, strict=True):
            array[start:end] = leaf
    return _kept(rows, tuple(array[: rows.count] for array in arrays))


def in_files(rows: RowBlocks, folder: Path) -> KeptRows:
    """Return all rows as arrays that are mapped from files, one for each leaf of an example."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    with ExitStack() as opened:
        files: list[Any] = []
        for leaves in rows:
            if not files:
                paths = [folder / f"leaf-{number}.bin" for number in range(len(leaves))]
                files = [opened.enter_context(path.open("xb")) for path in paths]
            for file, leaf in zip(files, leaves, strict=True):
                file.write(np.ascontiguousarray(leaf).tobytes())
    arrays = tuple(
        np.memmap(path, dtype, mode="r", shape=(rows.count, *shape))
        for path, (dtype, shape) in zip(paths, rows.specs, strict=True)
    )
    return _kept(rows, arrays)


def _kept(rows: RowBlocks, arrays: tuple[Any, ...]) -> KeptRows:
    assert rows.batch_size is not None
    return KeptRows(arrays, rows.structure, rows.count, rows.batch_size)


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
    for structure in read_ahead(compute, batches.prefetch(WORKERS), WORKERS, WORKERS + 1):
        flat = tf.nest.flatten(structure)
        leaves = leaves or [[] for _ in flat]
        for parts, leaf in zip(leaves, flat, strict=True):
            parts.append(leaf.numpy())
    with tf.device("CPU:0"):
        # one leaf after another, so that its parts are freed before the next is joined
        rows = [tf.convert_to_tensor(np.concatenate(leaves.pop(0))) for _ in flat]
    return tf.nest.pack_sequence_as(structure, rows)


def read_ahead(
    function: Callable[..., Any], arguments: Iterable[Any], workers: int, ahead: int
) -> Iterator[Any]:
    """Yield what a function returns of each of these arguments, in their order.

    :param workers: how many threads call it.
    :param ahead: how many results may wait to be taken.
    """
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Any] = deque()
        for given in arguments:
            waiting.append(pool.submit(function, *given))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
