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
from tfopt_data.row_checks import (
    differ,
    is_of_rows,
    leaves_of,
    mixed_rows,
    row_count,
    rows_at,
    unkept,
)

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
        import tensorflow as tf

        return any(leaf.shape.rank and leaf.shape[0] for leaf in tf.nest.flatten(self.spec))

    def blocks(self, size: int) -> Any:
        """Return a data set of blocks of `size` rows; the last one may be smaller."""
        import tensorflow as tf

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
        import tensorflow as tf

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
        """Return what the maps make of a batch, computed where tf.data would."""
        import tensorflow as tf

        with tf.device("CPU:0"):
            return self.traced(*_arguments(element))

    @property
    def structure(self) -> Any:
        """The structure of a result, whose leaves mean nothing."""
        import tensorflow as tf

        return tf.nest.map_structure(lambda leaf: 0, self.traced.structured_outputs)

    @property
    def names(self) -> str:
        """The names of the functions."""
        return " and ".join(function_name(stage.function) for stage in self.stages)

    def why_unkept(self) -> str:
        """Return what of a result cannot be kept by rows, "" if all can."""
        return unkept(self.traced.structured_outputs)

    def why_mixed(self, examples: Examples, rows: Any) -> str:
        """Return how rows depend on what shares their batch, "" if they do not.

        :param rows: the first rows of the examples.
        """
        if not is_of_rows(rows):
            return "takes what is no batch of rows of one shape"
        if examples.fixed and row_count(rows) < examples.batch.size:
            return "takes whole batches, and there are too few examples for one"
        return mixed_rows(self, rows, examples.batch.size, fixed=examples.fixed)


def named(stage: Map) -> str:
    """Return a map by its name and the line where its function was written."""
    file, _, line = place_of(stage.function).rpartition(":")
    place = f" ({Path(file).name}:{line})" if file else ""
    return f'map "{function_name(stage.function)}"{place}'


class ComputedRows:
    """The rows that maps make of all examples, block by block, to be kept (see `RowBlocks`).

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
        self.batch_size: int | None = examples.batch.size
        self.structure: Any = maps.structure
        self.specs: list[tuple[Any, tuple[int, ...]]] = []
        self.count = 0

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
        import tensorflow as tf

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
        import numpy as np

        size = self._examples.batch.size
        places = np.random.default_rng(self.count).permutation(row_count(rows))[:size]
        if self._examples.fixed and len(places) < size:
            return False
        self._checked += len(places)
        return differ(leaves_of(self._maps(rows_at(rows, places))), expected, places)


def as_it_is(function: Callable[..., Any]) -> Any:
    """Return a function of tensors that autograph leaves alone: converting it would take a tenth
    of a second of each start."""
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def _arguments(element: Any) -> tuple[Any, ...]:
    """Return what tf.data calls a map's function with: the parts of a tuple."""
    return element if type(element) is tuple else (element,)
