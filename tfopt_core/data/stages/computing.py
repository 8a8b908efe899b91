"""Stages that call a function of the workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from tfopt_core.data.functions import function_name
from tfopt_core.data.stages.base import Count, Order, Parallelism, ParallelStage, Stage, Yields


@attrs.frozen(kw_only=True, eq=False)
class Map(ParallelStage):
    """A function of one element. `kept_bytes` is what a function that remembers its results holds
    in memory once it has seen every element, 0 for others."""

    kind: ClassVar[str] = "map"
    yields: ClassVar[Yields] = "mapped"
    order: ClassVar[Order] = "kept"
    computes: ClassVar[bool] = True
    chooses: ClassVar[bool] = False
    stops_early: ClassVar[bool] = False
    function: Callable[..., Any]
    deterministic: bool | None = None
    kept_bytes: float = 0.0

    @property
    def elementwise(self) -> bool:
        return True

    @property
    def fills(self) -> bool:
        return self.kept_bytes > 0

    def lower(self, dataset: Any) -> Any:
        return dataset.map(self.function, **self.calls())

    def count_after(self, before: Count) -> Count:
        # it may make batches of another size
        return attrs.evolve(before, inside=None) if before.batched else before

    def describe(self) -> str:
        words: dict[Parallelism, str] = {None: "sequential", "auto": "parallel, AUTOTUNE"}
        calls = words.get(self.parallel, f"{self.parallel} in parallel")
        order = ", any order" if self.ordered is False else ""
        return f"{self.kind}: {function_name(self.function)} ({calls}{order})"


@attrs.frozen(kw_only=True, eq=False)
class MapExamples(Map):
    """A map over single examples, before batching."""

    kind: ClassVar[str] = "map_examples"


@attrs.frozen(kw_only=True, eq=False)
class MapBatches(Map):
    """A map over whole batches."""

    kind: ClassVar[str] = "map_batches"


@attrs.frozen(kw_only=True, eq=False)
class Filter(Stage):
    """Keeps the elements for which the predicate is true."""

    kind: ClassVar[str] = "filter"
    yields: ClassVar[Yields] = "some"
    order: ClassVar[Order] = "kept"
    computes: ClassVar[bool] = True
    chooses: ClassVar[bool] = False
    stops_early: ClassVar[bool] = False
    function: Callable[..., Any]
    deterministic: bool | None = None

    @property
    def elementwise(self) -> bool:
        return True

    def lower(self, dataset: Any) -> Any:
        return dataset.filter(self.function)

    def count_after(self, before: Count) -> Count:
        return before.with_elements(None)

    def describe(self) -> str:
        return f"filter: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class TakeWhile(Stage):
    """The elements before the first for which the predicate is false."""

    kind: ClassVar[str] = "take_while"
    yields: ClassVar[Yields] = "some"
    order: ClassVar[Order] = "kept"
    computes: ClassVar[bool] = True
    function: Callable[..., Any]
    deterministic: bool | None = None

    def lower(self, dataset: Any) -> Any:
        return dataset.take_while(self.function)

    def count_after(self, before: Count) -> Count:
        return before.with_elements(None)

    def describe(self) -> str:
        return f"take_while: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Interleave(ParallelStage):
    """Reads `cycle_length` data sets in turn, each made by the function from one element.

    A `cycle_length` of 1 reads them one after another, which is tf.data's flat_map.
    """

    kind: ClassVar[str] = "interleave"
    order: ClassVar[Order] = "fixed"
    computes: ClassVar[bool] = True
    chooses: ClassVar[bool] = False
    stops_early: ClassVar[bool] = False
    function: Callable[..., Any]
    cycle_length: int | None = None
    block_length: int = 1
    deterministic: bool | None = None

    @property
    def elementwise(self) -> bool:
        return self.cycle_length == 1

    def lower(self, dataset: Any) -> Any:
        if self.cycle_length == 1 and self.parallel is None:
            return dataset.flat_map(self.function)
        return dataset.interleave(
            self.function,
            cycle_length=self.cycle_length,
            block_length=self.block_length,
            **self.calls(),
        )

    def count_after(self, before: Count) -> Count:
        return before.with_elements(None)

    def describe(self) -> str:
        if self.cycle_length == 1:
            return f"interleave: {function_name(self.function)}, one after another"
        return f"interleave: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Opaque(Stage):
    """A function from data set to data set that tfopt does not examine.

    `deterministic` is declared by its author, and means that the order is fixed too.
    """

    kind: ClassVar[str] = "opaque"
    order: ClassVar[Order] = "fixed"
    computes: ClassVar[bool] = True
    # most set options: behind one that does stop early, a cache costs memory and no example
    stops_early: ClassVar[bool] = False
    function: Callable[[Any], Any]

    def lower(self, dataset: Any) -> Any:
        return self.function(dataset)

    def count_after(self, before: Count) -> Count:
        return before.with_elements(None)

    def describe(self) -> str:
        return f"opaque: {function_name(self.function)}"
