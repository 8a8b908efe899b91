"""Maps over batches applied to all examples in the order of their source, checked row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.data import (
    Batch,
    Map,
    MapBatches,
    element_spec,
    function_name,
    lower_plan,
    place_of,
)
from tfopt_core.plugins import DataPlan
from tfopt_core.toolkit import np, tf
from tfopt_data.kept_rows import RowBlocks
from tfopt_data.vectorizing import cause_of

# What a function that is checked takes and returns: an element with all its leaves.
Call = Callable[[Any], Any]


def mixed_rows(call: Call, rows: Any, size: int, *, fixed: bool) -> str:
    """Return how the rows of a result depend on what shares their batch, "" if they do not.

    What the function makes of batches of `size` rows must be what it makes of the same rows in
    another order, in larger and smaller batches, repeated, and once again: bit by bit.

    :param rows: some batches' rows in one element; at least one batch.
    :param fixed: whether the function takes batches of `size` rows only.
    """
    count = row_count(rows)
    parts = [np.arange(start, min(start + size, count)) for start in range(0, count, size)]
    if fixed and len(parts[-1]) < size:
        parts.pop()
    try:
        made = [leaves_of(call(rows_at(rows, part))) for part in parts]
    except Exception as error:  # whatever the workload's function raises
        return f"fails ({cause_of(error)})"
    for leaves, part in zip(made, parts, strict=True):
        if any(leaf.ndim == 0 or len(leaf) != len(part) for leaf in leaves):
            return "does not make one row of each row"
    columns = list(zip(*made, strict=True))
    if any(len({leaf.shape[1:] for leaf in column}) > 1 for column in columns):
        return "makes longer or shorter rows in some batches (pad to a fixed length)"
    expected = [np.concatenate(column) for column in columns]
    for how, places in _arrangements(sum(map(len, parts)), size, fixed):
        try:
            leaves = leaves_of(call(rows_at(rows, places)))
        except Exception as error:
            return f"fails {how} ({cause_of(error)})"
        if differ(leaves, expected, places):
            return f"makes something else of the same rows {how}"
    return ""


def differ(leaves: list[Any], expected: list[Any], places: Any) -> bool:
    """Return whether the leaves are not, bit by bit, the expected rows at these places."""
    return any(
        leaf.shape != column[places].shape or leaf.tobytes() != column[places].tobytes()
        for leaf, column in zip(leaves, expected, strict=True)
    )


def row_count(element: Any) -> int:
    """Return the length of the first axis."""
    return int(tf.nest.flatten(element)[0].shape[0])


def rows_at(element: Any, places: Any) -> Any:
    """Return an element of the rows at these places."""
    return tf.nest.map_structure(lambda leaf: tf.gather(leaf, places), element)


def leaves_of(element: Any) -> list[Any]:
    """Return the leaves as NumPy arrays."""
    return [leaf.numpy() for leaf in tf.nest.flatten(element)]


def _arrangements(count: int, size: int, fixed: bool) -> Iterator[tuple[str, Any]]:
    """Yield batches as places of rows, and in words what is special about them."""
    mixed = np.random.default_rng(0).permutation(count)
    first = np.arange(min(size, count))
    yield "the second time", first
    yield "where each is repeated", first // 2
    if fixed:
        yield "in another order", mixed[:size]
        yield "in a batch of one row repeated", np.zeros_like(first)
        return
    yield "in another order", mixed
    yield "in a larger batch", np.arange(count)
    yield "in a smaller batch", first[: len(first) // 2 + 1]
    yield "one at a time", mixed[:1]


# What is computed at once, where a map takes batches of any size.
BLOCK_ROWS = 8_192
BLOCK_BYTES = 8 * 2**20
# The batches from which it is first found out how a map treats rows.
CHECKED_BATCHES = 4
# A batch of rows from a block is computed once more, for so many rows.
ROWS_A_CHECK = 16


class RowsDiffer(Exception):
    """A map makes other rows of the same ones in some batch; the text says which map."""


@attrs.frozen(eq=False)
class Examples:
    """The examples of a plan before their batch, in the order of their source.

    :param head: the plan up to the shuffle, without it.
    :param batch: the stage that makes the batches which the maps take.
    """

    head: DataPlan
    batch: Batch

    @property
    def spec(self) -> Any:
        """The element spec of the batches."""
        return element_spec(self.head.append(self.batch))

    @property
    def fixed(self) -> bool:
        """Whether a map takes batches of one size only."""
        return any(leaf.shape.rank and leaf.shape[0] for leaf in tf.nest.flatten(self.spec))

    def blocks(self, size: int) -> Any:
        """Return a data set of blocks of `size` rows; the last one may be smaller."""
        source = self.head.source
        if len(self.head.stages) > 1 or source.origin != "arrays":
            return lower_plan(self.head).batch(size)
        # slicing a table row by row takes longer than most maps over its batches
        with tf.device("CPU:0"):
            arrays = tf.nest.map_structure(tf.convert_to_tensor, source.value)
        gathered = as_it_is(lambda places: rows_at(arrays, places))
        return tf.data.Dataset.range(source.count).batch(size).map(gathered)

    def first_rows(self) -> Any:
        """Return the rows of the first batches as one element, None if there are none."""
        return next(iter(self.blocks(CHECKED_BATCHES * self.batch.size).take(1)), None)


@attrs.frozen(eq=False)
class Maps:
    """Maps over batches, one after the other, and their composition as one traced function."""

    stages: tuple[MapBatches, ...]
    traced: Any

    @classmethod
    def of(cls, stages: Sequence[MapBatches], spec: Any) -> Maps:
        """Return these maps for batches of this element spec."""

        def composed(*element: Any) -> Any:
            result: Any = element
            for stage in stages:
                result = stage.function(*_arguments(result))
                if isinstance(result, list):  # tf.data makes tuples of lists
                    result = tuple(result)
            return result

        # a function of a given data set was converted when it was traced
        converts = not all(hasattr(stage.function, "autograph_info__") for stage in stages)
        traced = tf.function(composed, autograph=converts)
        return cls(tuple(stages), traced.get_concrete_function(*_arguments(spec)))

    def __call__(self, element: Any) -> Any:
        """Return what the maps make of a batch, computed where tf.data would, and as it does: in a
        call from Python a division by a constant becomes a product, and rounds otherwise."""
        with tf.device("CPU:0"):
            if not tf.executing_eagerly():
                return self.traced(*_arguments(element))
            return next(iter(tf.data.Dataset.from_tensors(element).map(self.traced)))

    @property
    def names(self) -> str:
        """The names of the functions."""
        return " and ".join(function_name(stage.function) for stage in self.stages)

    def why_unkept(self) -> str:
        """Return what of a result cannot be kept in arrays of rows, "" if all can."""
        for leaf in tf.nest.flatten(self.traced.structured_outputs):
            if not isinstance(leaf, tf.Tensor):
                return f"makes a {type(leaf).__name__}, which is not kept by rows"
            if not (leaf.dtype.is_integer or leaf.dtype.is_floating or leaf.dtype.is_bool):
                return f"makes {leaf.dtype.name}, which is not kept by rows"
        return ""

    def why_mixed(self, examples: Examples, rows: Any) -> str:
        """Return how rows depend on what shares their batch, "" if they do not.

        :param rows: the first rows of the examples.
        """
        leaves = tf.nest.flatten(rows)
        dense = all(isinstance(leaf, tf.Tensor) and leaf.shape.rank for leaf in leaves)
        if not dense or len({leaf.shape[0] for leaf in leaves}) != 1:
            return "takes what is no batch of rows of one shape"
        if examples.fixed and row_count(rows) < examples.batch.size:
            return "takes whole batches, and there are too few examples for one"
        return mixed_rows(self, rows, examples.batch.size, fixed=examples.fixed)


def named(stage: Map) -> str:
    """Return a map by its name and the line where its function was written."""
    file, _, line = place_of(stage.function).rpartition(":")
    place = f" ({Path(file).name}:{line})" if file else ""
    return f'map "{function_name(stage.function)}"{place}'


class ComputedRows(RowBlocks):
    """The rows that maps make of all examples, block by block, to be kept.

    Batches drawn from the blocks are computed too, as a training would: what depends on the other
    rows of a batch may show in few of them.

    :param row_bytes: of a row that is computed, with what it is computed from.
    :raises RowsDiffer: while it is read.
    """

    def __init__(self, examples: Examples, maps: Maps, row_bytes: float) -> None:
        self._examples, self._maps = examples, maps
        size = examples.batch.size
        rows = min(BLOCK_ROWS, int(BLOCK_BYTES / max(1.0, row_bytes)))
        self._block_size = size if examples.fixed else max(1, rows // size) * size
        self._checked = 0
        self.batch_size = examples.batch.size
        # its leaves mean nothing
        self.structure = tf.nest.map_structure(lambda leaf: 0, maps.traced.structured_outputs)

    def __iter__(self) -> Iterator[list[Any]]:
        name = named(self._maps.stages[-1])
        for rows, made in self._computed():
            length = row_count(rows)
            leaves = [leaf[:length] for leaf in leaves_of(made)]
            specs = [(leaf.dtype, leaf.shape[1:]) for leaf in leaves]
            self.specs = self.specs or specs
            if specs != self.specs or any(len(leaf) != length for leaf in leaves):
                raise RowsDiffer(f"{name} makes rows of another shape in some batches")
            if self._checked * ROWS_A_CHECK <= self.count and self._is_mixed(rows, leaves):
                raise RowsDiffer(f"{name} makes something else of the same rows in another batch")
            self.count += length
            yield leaves

    def _computed(self) -> Any:
        """Return a data set of blocks and what the maps make of them."""
        size, fixed = self._block_size, self._examples.fixed

        @as_it_is
        def compute(*element: Any) -> Any:
            rows = element if type(self._examples.spec) is tuple else element[0]
            if not fixed:
                return rows, self._maps(rows)
            # the last row once more for each one that a whole batch lacks
            last = tf.shape(tf.nest.flatten(rows)[0])[0] - 1
            return rows, self._maps(rows_at(rows, tf.minimum(tf.range(size), last)))

        blocks = self._examples.blocks(size)
        return blocks.map(compute, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def _is_mixed(self, rows: Any, expected: list[Any]) -> bool:
        size = self._examples.batch.size
        places = np.random.default_rng(self.count).permutation(row_count(rows))[:size]
        if self._examples.fixed and len(places) < size:
            return False
        self._checked += len(places)
        return differ(leaves_of(self._maps(rows_at(rows, places))), expected, places)


def as_it_is(function: Callable[..., Any]) -> Any:
    """Return a function of tensors that autograph leaves alone: converting it would take a tenth
    of a second of each start."""
    return tf.autograph.experimental.do_not_convert(function)


def _arguments(element: Any) -> tuple[Any, ...]:
    """Return what tf.data calls a map's function with: the parts of a tuple."""
    return element if type(element) is tuple else (element,)
