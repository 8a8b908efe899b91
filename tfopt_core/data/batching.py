"""Stages that put elements together and take them apart again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs

from tfopt_core.data.source import Source
from tfopt_core.data.stage import Count, ParallelStage, Stage
from tfopt_core.data.stages import Shuffle
from tfopt_core.lazy import np, tf


@attrs.frozen(kw_only=True, eq=False)
class Batch(
    ParallelStage, kind="batch", order="kept", cheap=True, chooses=False, stops_early=False
):
    """Puts `size` examples into one batch.

    `of` is the size of the global batch, if each worker makes a part of it; else None.
    """

    deterministic: bool | None = True
    size: int
    drop_remainder: bool = False
    of: int | None = None

    def lower(self, dataset: Any) -> Any:
        return dataset.batch(self.size, drop_remainder=self.drop_remainder, **self.calls())

    def with_static_size(self, dataset: Any) -> Batch:
        """Return the stage with its size in the shapes of its batches, if no example is left over.

        A model's step is traced for the shapes of its batches; where their size is known, as with
        arrays that are given to `fit`, it is faster.

        :param dataset: what comes before the stage.
        """
        if type(self) is not Batch or self.drop_remainder:
            return self
        # None within a graph (parameter servers), negative where it is unknown or infinite
        count = tf.get_static_value(dataset.cardinality())
        filled = count is not None and count > 0 and count % self.size == 0
        return attrs.evolve(self, drop_remainder=True) if filled else self

    def count_after(self, before: Count) -> Count:
        elements = inside = None
        if before.elements is not None:
            whole = before.elements // self.size
            elements = whole if self.drop_remainder else math.ceil(before.elements / self.size)
            inside = whole * self.size if self.drop_remainder else before.elements
        return Count(
            elements=elements,
            examples=before.examples if before.batched or before.shared else before.elements,
            inside=inside,
            batched=True,
            batch_size=self.of or self.size,
            shared=before.shared,
        )

    def describe(self) -> str:
        part = "" if self.of in (None, self.size) else f" of {self.of}"
        dropped = ", remainder dropped" if self.drop_remainder else ""
        return f"{self.kind}: {self.size}{part}{dropped}"


@attrs.frozen(kw_only=True, eq=False)
class PaddedBatch(Batch, kind="padded_batch"):
    """A batch whose examples are padded to one shape: to `shapes`, or to the longest of each
    batch where that is None; with `values`, or zeros where that is None."""

    shapes: Any = None
    values: Any = None

    def lower(self, dataset: Any) -> Any:
        return dataset.padded_batch(self.size, self.shapes, self.values, self.drop_remainder)


@attrs.frozen(kw_only=True, eq=False)
class RaggedBatch(Batch, kind="ragged_batch"):
    """A batch of examples of different lengths, as ragged tensors."""

    row_splits: Literal["int32", "int64"] = "int64"

    def lower(self, dataset: Any) -> Any:
        return dataset.ragged_batch(self.size, self.drop_remainder, tf.as_dtype(self.row_splits))


@attrs.frozen(kw_only=True, eq=False)
class Unbatch(Stage, kind="unbatch", order="kept", chooses=False, stops_early=False):
    """Takes batches apart into examples."""

    deterministic: bool | None = True

    @property
    def elementwise(self) -> bool:
        return True

    def lower(self, dataset: Any) -> Any:
        return dataset.unbatch()

    def count_after(self, before: Count) -> Count:
        return Count(before.inside, before.inside)


# cheap: and a cache cannot keep data sets
@attrs.frozen(kw_only=True, eq=False)
class Window(Stage, kind="window", order="kept", cheap=True, stops_early=False):
    """Data sets of `size` elements each, that begin `shift` apart and take every `stride`-th."""

    deterministic: bool | None = True
    size: int
    shift: int | None = None
    stride: int = 1
    drop_remainder: bool = False

    def lower(self, dataset: Any) -> Any:
        return dataset.window(self.size, self.shift, self.stride, self.drop_remainder)

    def count_after(self, before: Count) -> Count:
        if before.elements is None:
            return before.with_elements(None)
        # a window begins at every `shift`-th element; a whole one spans (size - 1) strides
        shift = self.size if self.shift is None else self.shift
        if self.drop_remainder:
            spanned = (self.size - 1) * self.stride + 1
            return before.with_elements(max(0, (before.elements - spanned) // shift + 1))
        return before.with_elements(math.ceil(before.elements / shift))

    def describe(self) -> str:
        return f"window: {self.size}" + (", remainder dropped" if self.drop_remainder else "")


# Arrays are shuffled and batched by their indices, as Keras' own `fit` does


@attrs.frozen(kw_only=True, eq=False)
class KerasShuffle(Shuffle, kind="keras_shuffle"):
    """The shuffle of arrays by Keras' own `fit`. Behind a stage without `tensors` it has an order
    of its own.

    `passes` returns a data set: each of its iterators yields the indices of the examples as one
    element, in Keras' own order.
    """

    passes: Callable[[], Any] = attrs.field(repr=False)

    def describe(self) -> str:
        return f"{self.kind}: all examples, anew each epoch"

    def in_order(self, tensors: Any) -> Any:
        """Return the examples of these tensors in Keras' own order as a `tf.data.Dataset`."""
        tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)
        count = len(tf.nest.flatten(tensors)[0])
        indices = self.passes().flat_map(tf.data.Dataset.from_tensor_slices)
        examples = indices.map(
            lambda index: tf.nest.map_structure(lambda part: tf.gather(part, index), tensors)
        )
        return examples.apply(tf.data.experimental.assert_cardinality(count))


def gathered(stages: Sequence[Stage], *, static: bool) -> Any:
    """Return a `tf.data.Dataset` of the batches of dense arrays that are shuffled and batched;
    None if the first three stages are not these.

    Slicing, shuffling and batching examples one by one costs a step more than `model.fit(x, y)`,
    which shuffles indices and gathers a whole batch. The order is the same: a shuffle draws
    positions, whatever the elements are.

    :param static: whether the size of a batch stands in its shapes if no example is left over.
    """
    match stages:
        case [Source(origin="arrays") as source, Shuffle() as shuffle, Batch() as batch, *_]:
            pass
        case _:
            return None
    # not padded or ragged batches: their examples differ in shape
    leaves = tf.nest.flatten(source.value)
    if type(batch) is not Batch or not all(isinstance(x, np.ndarray | tf.Tensor) for x in leaves):
        return None
    with tf.device("CPU:0"):
        arrays = tf.nest.map_structure(tf.convert_to_tensor, source.value)
    indices = shuffle.lower(tf.data.Dataset.range(source.count))
    indices = (batch.with_static_size(indices) if static else batch).lower(indices)

    # converting it would take a tenth of a second of each start
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def gather(chosen: Any) -> Any:
        return tf.nest.map_structure(lambda array: tf.gather(array, chosen), arrays)

    return indices.map(gather)


def shapes_in_words(batch: Any) -> str:
    """Return the shapes of a batch's parts: `(32, 28, 28, 1), (32,)`; `(...)` where one has any
    number of axes."""
    shapes = []
    for part in tf.nest.flatten(batch):
        shape = getattr(part, "shape", ())
        if getattr(shape, "rank", 0) is None:
            shapes.append("(...)")
            continue
        sizes = ", ".join("?" if size is None else str(size) for size in shape)
        shapes.append(f"({sizes}{',' if len(shape) == 1 else ''})")
    return ", ".join(shapes)
