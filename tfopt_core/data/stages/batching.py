"""Stages that put elements together and take them apart again."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.data.stages.base import Parallelism, Stage


@attrs.frozen(kw_only=True, eq=False)
class Batch(Stage):
    """Puts `size` examples into one batch. `parallel` and `ordered` are those of a map.

    `of` is the size of the global batch of which workers put together a part each; None where a
    batch is the whole one.
    """

    kind: ClassVar[str] = "batch"
    size: int
    drop_remainder: bool = False
    parallel: Parallelism = None
    ordered: bool | None = True
    of: int | None = None

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


@attrs.frozen(kw_only=True, eq=False)
class RaggedBatch(Batch):
    """A batch of examples of different lengths, as ragged tensors."""

    kind: ClassVar[str] = "ragged_batch"
    row_splits: Literal["int32", "int64"] = "int64"


@attrs.frozen(kw_only=True, eq=False)
class Unbatch(Stage):
    """Takes batches apart into examples."""

    kind: ClassVar[str] = "unbatch"


@attrs.frozen(kw_only=True, eq=False)
class Window(Stage):
    """Data sets of `size` elements each, that begin `shift` apart and take every `stride`-th."""

    kind: ClassVar[str] = "window"
    size: int
    shift: int | None = None
    stride: int = 1
    drop_remainder: bool = False

    def describe(self) -> str:
        return f"window: {self.size}" + (", remainder dropped" if self.drop_remainder else "")
