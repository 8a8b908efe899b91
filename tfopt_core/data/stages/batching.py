"""Stages that put elements together and take them apart again."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.data.stages.base import Count, Order, ParallelStage, Stage


@attrs.frozen(kw_only=True, eq=False)
class Batch(ParallelStage):
    """Puts `size` examples into one batch.

    `of` is the size of the global batch, if each worker makes a part of it; else None.
    """

    kind: ClassVar[str] = "batch"
    order: ClassVar[Order] = "kept"
    cheap: ClassVar[bool] = True
    chooses: ClassVar[bool] = False
    stops_early: ClassVar[bool] = False
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
        import tensorflow as tf

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
class PaddedBatch(Batch):
    """A batch whose examples are padded to one shape: to `shapes`, or to the longest of each
    batch where that is None; with `values`, or zeros where that is None."""

    kind: ClassVar[str] = "padded_batch"
    shapes: Any = None
    values: Any = None

    def lower(self, dataset: Any) -> Any:
        return dataset.padded_batch(
            self.size,
            padded_shapes=self.shapes,
            padding_values=self.values,
            drop_remainder=self.drop_remainder,
        )


@attrs.frozen(kw_only=True, eq=False)
class RaggedBatch(Batch):
    """A batch of examples of different lengths, as ragged tensors."""

    kind: ClassVar[str] = "ragged_batch"
    row_splits: Literal["int32", "int64"] = "int64"

    def lower(self, dataset: Any) -> Any:
        import tensorflow as tf

        return dataset.ragged_batch(
            self.size,
            drop_remainder=self.drop_remainder,
            row_splits_dtype=tf.as_dtype(self.row_splits),
        )


@attrs.frozen(kw_only=True, eq=False)
class Unbatch(Stage):
    """Takes batches apart into examples."""

    kind: ClassVar[str] = "unbatch"
    order: ClassVar[Order] = "kept"
    chooses: ClassVar[bool] = False
    stops_early: ClassVar[bool] = False
    deterministic: bool | None = True

    @property
    def elementwise(self) -> bool:
        return True

    def lower(self, dataset: Any) -> Any:
        return dataset.unbatch()

    def count_after(self, before: Count) -> Count:
        return Count(before.inside, before.inside)


@attrs.frozen(kw_only=True, eq=False)
class Window(Stage):
    """Data sets of `size` elements each, that begin `shift` apart and take every `stride`-th."""

    kind: ClassVar[str] = "window"
    order: ClassVar[Order] = "kept"
    cheap: ClassVar[bool] = True  # and a cache cannot keep data sets
    stops_early: ClassVar[bool] = False
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
