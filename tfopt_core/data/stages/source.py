"""The first stage of a pipeline: where its elements come from."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.data.stages.base import Stage

# Where elements come from. The value of "arrays" is a structure whose leaves share their first
# axis, of "tensors" a single element, of "range" (start, stop, step), of "zip" and "concatenate"
# a tuple of plans, of "dataset" a `tf.data.Dataset` that tfopt does not look into.
Origin = Literal[
    "arrays", "tensors", "range", "dataset", "generator", "pydataset", "zip", "concatenate"
]
# So many of a source's parts are described, the others counted.
_DESCRIBED_PARTS = 4


@attrs.frozen(kw_only=True, eq=False)
class Source(Stage):
    """Where examples come from. `count` is the number of elements, None where unknown.

    `batched` sources yield batches; `random_access` ones hold all examples, so shuffling
    them costs nothing but the references. `signature` is the `tf.TypeSpec` structure of an
    element, where the value does not tell it. The `layout` of a "zip" is the structure of an
    element, with the index of the part that stands there as each leaf; None is a flat tuple.
    """

    kind: ClassVar[str] = "source"
    value: Any
    origin: Origin
    count: int | None = None
    batched: bool = False
    signature: Any = None
    layout: Any = None

    @property
    def random_access(self) -> bool:
        """Whether the elements can be shuffled before anything is computed from them."""
        return self.origin in ("arrays", "range")

    @property
    def parts(self) -> tuple[Any, ...]:
        """The `DataPlan`s that a "zip" or "concatenate" source puts together, () for others."""
        return self.value if self.origin in ("zip", "concatenate") else ()

    def describe(self) -> str:
        unit = "batches" if self.batched else "examples"
        size = f"{self.count:,} {unit}" if self.count is not None else f"unknown number of {unit}"
        if self.parts:
            shown = [", ".join(part.describe()) for part in self.parts[:_DESCRIBED_PARTS]]
            if len(self.parts) > _DESCRIBED_PARTS:
                shown.append(f"and {len(self.parts) - _DESCRIBED_PARTS} more")
            inner = "; ".join(shown)
            return f"source: {self.origin} of [{inner}], {size}"
        return f"source: {self.origin}, {size}"
