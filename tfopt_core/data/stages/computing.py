"""Stages that call a function of the workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from tfopt_core.data.functions import function_name
from tfopt_core.data.stages.base import Parallelism, Stage


@attrs.frozen(kw_only=True, eq=False)
class Map(Stage):
    """A function of one element. `parallel` calls run at once; `ordered` keeps their order, or
    leaves that to the options of the data set where it is None. `kept_bytes` is what a function
    that remembers its results holds in memory once it has seen every element, 0 for others."""

    function: Callable[..., Any]
    deterministic: bool | None = None
    parallel: Parallelism = None
    ordered: bool | None = True
    kept_bytes: float = 0.0

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
    function: Callable[..., Any]
    deterministic: bool | None = None

    def describe(self) -> str:
        return f"filter: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class TakeWhile(Stage):
    """The elements before the first for which the predicate is false."""

    kind: ClassVar[str] = "take_while"
    function: Callable[..., Any]
    deterministic: bool | None = None

    def describe(self) -> str:
        return f"take_while: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Interleave(Stage):
    """Reads `cycle_length` data sets in turn, each made by the function from one element.

    A `cycle_length` of 1 reads them one after another, which is tf.data's flat_map. `ordered`
    is that of a map.
    """

    kind: ClassVar[str] = "interleave"
    function: Callable[..., Any]
    cycle_length: int | None = None
    block_length: int = 1
    parallel: Parallelism = None
    ordered: bool | None = True
    deterministic: bool | None = None

    def describe(self) -> str:
        if self.cycle_length == 1:
            return f"interleave: {function_name(self.function)}, one after another"
        return f"interleave: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Opaque(Stage):
    """A function from data set to data set that tfopt does not look into."""

    kind: ClassVar[str] = "opaque"
    function: Callable[[Any], Any]
    deterministic: bool | None = False

    def describe(self) -> str:
        return f"opaque: {function_name(self.function)}"
