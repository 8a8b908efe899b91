"""Stages that divide the data among workers that train one model together.

Each has the `index` of this worker among `count`. None means all workers, for code that examines a
plan outside of a cluster: the plan then yields the data of a single process.
"""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.data import Part, rows_of
from tfopt_core.plugins import WorkloadError
from tfopt_core.toolkit import tf


@attrs.frozen(kw_only=True, eq=False)
class PartOfBatch(Part, kind="part_of_batch", yields="mapped"):
    """The worker's rows of each batch; none if the batch has too few."""

    def left_of(self, elements: int) -> int:
        return elements

    def lower(self, dataset: Any) -> Any:
        """Return the worker's rows.

        :raises WorkloadError: for batches that have none.
        """
        return dataset if self.index is None else _part_of_batches(dataset, self.count, self.index)

    def describe(self) -> str:
        return f"part of each batch: {self.whose}"


@attrs.frozen(kw_only=True, eq=False)
class PartOfExamples(Part, kind="part_of_examples"):
    """The worker's rows of every `of` examples in a row, which later form a batch, so that nothing
    is computed from the others."""

    of: int
    drop_remainder: bool = False

    def left_of(self, elements: int) -> int:
        whole, rest = divmod(elements, self.of)
        rest = 0 if self.drop_remainder else rest
        if self.index is None:
            return whole * self.of + rest
        begin, end = rows_of(self.of, self.count, self.index)
        last_begin, last_end = rows_of(rest, self.count, self.index)
        return whole * (end - begin) + last_end - last_begin

    def lower(self, dataset: Any) -> Any:
        """Return the worker's examples: batches are cut and taken apart again, without a function
        call for each example.

        :raises WorkloadError: for examples with a part that has no rows.
        """
        count = int(dataset.cardinality())
        elements = count if count >= 0 else None
        if self.index is None:
            part = dataset if elements is None else dataset.take(self.left_of(elements))
        else:
            batches = dataset.batch(self.of, drop_remainder=self.drop_remainder)
            part = _part_of_batches(batches, self.count, self.index).unbatch()
        if elements is None:
            return part
        return part.apply(tf.data.experimental.assert_cardinality(self.left_of(elements)))

    def describe(self) -> str:
        return f"part of every {self.of:,} examples: {self.whose}"


@attrs.frozen(kw_only=True, eq=False)
class PartOfSource(Part, kind="part_of_source"):
    """Every `count`-th element of the source, beginning with that at `index`."""

    def left_of(self, elements: int) -> int:
        if self.index is None:
            return elements
        return max(0, -((self.index - elements) // self.count))

    def lower(self, dataset: Any) -> Any:
        return dataset if self.index is None else dataset.shard(self.count, self.index)

    def describe(self) -> str:
        return f"part of the source: {self.whose}"


def _part_of_batches(dataset: Any, count: int, index: int) -> Any:
    _check_rows(dataset.element_spec)

    def part_of_batch(*batch: Any) -> Any:
        data = batch if isinstance(dataset.element_spec, tuple) else batch[0]
        return tf.nest.map_structure(lambda part: _rows(part, count, index), data)

    return dataset.map(part_of_batch)


def _rows(part: Any, count: int, index: int) -> Any:
    """Return the worker's rows of one component of a batch."""
    if part is None:
        return None
    if isinstance(part, tf.SparseTensor):
        shape = part.dense_shape
        begin, end = shape[0] * index // count, shape[0] * (index + 1) // count
        start = tf.concat([[begin], tf.zeros_like(shape[1:])], 0)
        return tf.sparse.slice(part, start, tf.concat([[end - begin], shape[1:]], 0))
    if isinstance(part, tf.RaggedTensor):
        rows = part.nrows()
        return part[rows * index // count : rows * (index + 1) // count]
    # a number where it is known: the shape of the part is then known too
    rows = part.shape[0] or tf.shape(part)[0]
    return part[rows * index // count : rows * (index + 1) // count]


def _check_rows(spec: Any) -> None:
    for leaf in tf.nest.flatten(spec):
        if isinstance(leaf, tf.TensorSpec) and leaf.shape.rank == 0:
            raise WorkloadError(
                f"the batches hold a single {leaf.dtype.name}, which has no rows that workers "
                "could share; give every part of a batch a first axis for its examples"
            )
        if isinstance(leaf, tf.data.DatasetSpec):
            raise WorkloadError(
                "the batches hold data sets, whose rows workers cannot share; give tensors"
            )
