"""Stages that call a function of the workload, and what the graph of such a function shows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import attrs

from tfopt_core.data.stage import Count, Parallelism, ParallelStage, Stage
from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without

# Stateful by TensorFlow's definition, yet the same input gives the same output.
_REPEATABLE = frozenset({
    "AnonymousHashTable", "Assert", "FixedLengthRecordDatasetV2", "HashTableV2", "If",
    "LookupTableFindV2", "LookupTableSizeV2", "MatchingFiles", "PartitionedCall", "RangeDataset",
    "ReadFile", "StatefulIf", "StatefulPartitionedCall", "StatefulWhile", "StatelessRandomGetAlg",
    "TFRecordDataset", "TFRecordDatasetV2", "TensorDataset", "TensorSliceDataset",
    "TextLineDataset", "While",
})  # fmt: skip
_LOOKUPS = frozenset({"LookupTableFindV2", "LookupTableSizeV2"})


@attrs.frozen(kw_only=True, eq=False)
class Map(ParallelStage, kind="map", yields="mapped", order="kept", computes=True, chooses=False,
          stops_early=False):  # fmt: skip
    """A function of one element. `kept_bytes` is what a function that remembers its results holds
    in memory once it has seen every element, 0 for others."""

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


class MapExamples(Map, kind="map_examples"):
    """A map over single examples, before batching."""


class MapBatches(Map, kind="map_batches"):
    """A map over whole batches."""


@attrs.frozen(kw_only=True, eq=False)
class _OfFunction(Stage, computes=True):
    """A stage of which only its function knows how many elements come out."""

    function: Callable[..., Any]
    deterministic: bool | None = None

    def count_after(self, before: Count) -> Count:
        return before.with_elements(None)

    def describe(self) -> str:
        return f"{self.kind}: {function_name(self.function)}"


class Filter(_OfFunction, kind="filter", yields="some", order="kept", chooses=False,
             stops_early=False):  # fmt: skip
    """Keeps the elements for which the predicate is true."""

    @property
    def elementwise(self) -> bool:
        return True

    def lower(self, dataset: Any) -> Any:
        return dataset.filter(self.function)


class TakeWhile(_OfFunction, kind="take_while", yields="some", order="kept"):
    """The elements before the first for which the predicate is false."""

    def lower(self, dataset: Any) -> Any:
        return dataset.take_while(self.function)


# most set options: behind one that does stop early, a cache costs memory and no example
@attrs.frozen(kw_only=True, eq=False)
class Opaque(_OfFunction, kind="opaque", order="fixed", stops_early=False):
    """A function from data set to data set that tfopt does not examine.

    `deterministic` is declared by its author, and means that the order is fixed too.
    """

    deterministic: bool | None = False

    def lower(self, dataset: Any) -> Any:
        return self.function(dataset)


@attrs.frozen(kw_only=True, eq=False)
class Interleave(ParallelStage, kind="interleave", order="fixed", computes=True, chooses=False,
                 stops_early=False):  # fmt: skip
    """Reads `cycle_length` data sets in turn, each made by the function from one element.

    A `cycle_length` of 1 reads them one after another, which is tf.data's flat_map.
    """

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
            self.function, self.cycle_length, self.block_length, **self.calls()
        )

    def count_after(self, before: Count) -> Count:
        return before.with_elements(None)

    def describe(self) -> str:
        behind = ", one after another" if self.cycle_length == 1 else ""
        return f"interleave: {function_name(self.function)}{behind}"


def function_name(function: Any) -> str:
    """Return the name of a function without its module."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).replace("<locals>.", "")


def place_of(function: Any) -> str:
    """Return where a function was written, as `file:line`; "" if unknown.

    Functions read from a `tf.data.Dataset` carry their place. `functools.partial` and
    `tf.function` are unwrapped; a layer counts as its `call`, another object as its `__call__`.
    """
    if not callable(function):
        return ""
    place = getattr(function, "place", None)
    if isinstance(place, str):
        return place
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "python_function", function)  # of a tf.function
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(type(function), "call", type(function).__call__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def changing_ops(graph: Any) -> tuple[str, ...]:
    """Return the ops of a function's graph whose output may differ from call to call.

    These are random ops, values of variables, Python functions and side effects, also those of
    called functions.

    :param graph: a `tf.Graph`, as a `ConcreteFunction` has it.
    """
    repeatable = _REPEATABLE - _LOOKUPS if _reads_mutable_table(graph) else _REPEATABLE
    changing = {op for op in all_ops(graph) - repeatable if is_stateful_op(op)}
    return tuple(
        sorted(changing | ({CAPTURED_DATASET} if _reads_another_dataset(graph) else set()))
    )


def _reads_another_dataset(graph: Any) -> bool:
    """Return whether a function reads a data set that was made outside of it, whose own functions
    are not in its graph."""
    return any(given.dtype == tf.variant for given, _ in graph.captures)


def _reads_mutable_table(graph: Any) -> bool:
    """Return whether a function looks up in a table whose entries may change.

    Each table is asked to remove no keys: only one whose entries may change accepts that.
    """
    if not all_ops(graph) & _LOOKUPS:
        return False
    captured = (given for given, _ in graph.captures if hasattr(given, "numpy"))
    tables = [given for given in captured if given.dtype == tf.resource]
    keys = tf.string, tf.int64, tf.int32, tf.float32, tf.float64, tf.bool
    for table, key in product(tables, keys):
        with suppress(tf.errors.OpError), tf.init_scope():
            tf.raw_ops.LookupTableRemoveV2(table_handle=table, keys=tf.zeros([0], key))
            return True
    return False


def all_ops(graph: Any) -> set[str]:
    """Return the types of all ops of a function's graph, and of all functions that it calls."""
    definition = graph.as_graph_def()
    ops = {node.op for node in definition.node}
    for library_function in definition.library.function:
        ops.update(node.op for node in library_function.node_def)
    return ops


# In the place of the ops of a data set that a function has captured.
CAPTURED_DATASET = "DatasetFromOutside"
# Ops whose next value depends on how often they ran: TensorFlow's runtime holds their state, and
# nothing can read it.
_DRAWING = (
    "Multinomial", "ParameterizedTruncatedNormal", "RandomCrop", "RandomGamma", "RandomPoissonV2",
    "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
    "SampleDistortedBoundingBoxV2", "TruncatedNormal",
)  # fmt: skip


def drawing_ops(graph: Any) -> tuple[str, ...]:
    """Return the ops of a graph, and of all functions it calls, by which TensorFlow draws random
    numbers: what each draws next cannot be saved, and goes on within one traced function only."""
    ops = {op for op in all_ops(graph) if op in _DRAWING or op.startswith("Stateful")}
    return tuple(sorted(ops - {"StatefulPartitionedCall", "StatefulIf", "StatefulWhile"}))


def is_stateful_op(name: str) -> bool:
    """Return whether TensorFlow registers the op as stateful: random, or with a side effect.

    An unknown op counts as stateful, and so does every op if the registry cannot be read.
    """
    if why_without("random-operations"):
        return True
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(name)
    return definition is None or bool(definition.is_stateful)


def mapped_as_in_tf_data(functions: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    """Return a function of an element that applies functions to it while a graph is traced, and
    computes the bits that maps of tf.data would.

    As a part of the graph they would be optimized with it: TensorFlow multiplies by the inverse of
    a constant divisor, which rounds otherwise.
    """
    attributes = {"_tf_data_function": True, "_noinline": True}
    # traced with AutoGraph, as tf.data does
    traced = [tf.function(one, experimental_attributes=attributes) for one in functions]
    name, options = "disable_meta_optimizer", tf.config.optimizer

    def mapped(element: Any) -> Any:
        before = options.get_experimental_options().get(name, False)
        options.set_experimental_options({name: True})  # of what is traced here
        try:
            for function in traced:
                element = function(*element) if isinstance(element, tuple) else function(element)
        finally:
            options.set_experimental_options({name: before})
        return element

    return mapped
