"""Take a data set apart into stages, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import attrs

from tfopt_core.data.dissect.steps import step_of
from tfopt_core.data.dissect.walk import (
    NotUnderstood,
    TracedFunction,
    class_name,
    is_batched,
    known_cardinality,
    last_step,
    require,
    reshuffling,
)
from tfopt_core.data.functions import Map, MapBatches, MapExamples, changing_ops
from tfopt_core.data.source import Origin, Source
from tfopt_core.data.stage import Stage, counts
from tfopt_core.data.stages import Prefetch, in_any_order
from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without

# Makes a `DataPlan` of a `tf.data.Dataset`.
PlanOf = Callable[[Any], Any]

# Data sets that are no stages here, but yield the same each time if their inputs do.
_REPEATING = frozenset({
    "CacheDataset", "ParallelInterleaveDataset", "_AssertCardinalityDataset",
    "_DenseToRaggedDataset", "_DenseToSparseBatchDataset", "_GroupByWindowDataset",
    "_RebatchDataset", "_RestructuredDataset", "_ScanDataset", "_UniqueDataset",
})  # fmt: skip

Given = tuple[tuple[Stage, Any], ...]


def taken_apart(
    dataset: Any, plan_of: PlanOf, *, deterministic: bool = False, kept: Container[Any] = ()
) -> Given:
    """Return the stages of a data set, the source first, each with the data set up to and with it.

    Everything up to the last part that is not known is one opaque source.

    :param plan_of: makes a plan of each data set that the source puts together.
    :param deterministic: whether its author declares that it yields the same each time.
    :param kept: shuffles that stay as they are, with all before the last of them.
    :raises WorkloadError: if the installed TensorFlow does not show the inputs of a data set.
    """
    missing = why_without("data-sets")
    if missing:
        # not even batches could be recognized
        raise WorkloadError(missing)
    behind: list[tuple[Stage, Any]] = []
    current = dataset
    while True:
        stage, parent = _one_off(current, plan_of, deterministic)
        if current in kept or (parent is None and any(one in kept for one in reshuffling(current))):
            stage, parent = _in_one_piece(current, plan_of, deterministic), None
        behind.append((stage, current))
        if parent is None:
            break
        current = parent
    return _named(behind[::-1])


def _one_off(dataset: Any, plan_of: PlanOf, deterministic: bool) -> tuple[Stage, Any]:
    """Return the last stage and the data set that it is made from, None for a source."""
    # private attributes may be missing, or mean something else, in a later TensorFlow
    try:
        return source_of(dataset, plan_of), None
    except Exception:
        pass
    try:
        return step_of(dataset)
    except Exception:
        why_without("data-kinds")  # a warning, if members are missing
        return _in_one_piece(dataset, plan_of, deterministic), None


def _in_one_piece(dataset: Any, plan_of: PlanOf, deterministic: bool) -> Source:
    return Source(
        value=dataset,
        origin="dataset",
        count=known_cardinality(dataset),
        batched=is_batched(dataset),
        deterministic=deterministic or _repeats(dataset, plan_of),
    )


def _repeats(dataset: Any, plan_of: PlanOf) -> bool:
    """Return whether an opaque data set is known to yield the same each time."""
    try:
        dataset = getattr(dataset, "_impl", dataset)
        if class_name(dataset) not in _REPEATING or why_without("data-repeats"):
            return False
        if getattr(dataset, "_deterministic", "true") != "true":
            return False
        if any(changing_ops(function.function.graph) for function in dataset._functions()):
            return False
        made_from = [taken_apart(part, plan_of) for part in dataset._inputs()]
        return all(repeats([stage for stage, _ in part]) for part in made_from)
    except Exception:  # as above
        return False


def _named(given: Sequence[tuple[Stage, Any]]) -> Given:
    """Return the stages with each map as one of examples or batches, and a free last prefetch."""
    result: list[tuple[Stage, Any]] = []
    for index, (stage, dataset) in enumerate(given):
        if isinstance(stage, Map):
            batched = counts([before for before, _ in result])[-1].batched
            kind = MapBatches if batched else MapExamples
            stage = kind(function=stage.function, parallel=stage.parallel, ordered=stage.ordered)
        if isinstance(stage, Prefetch) and index == len(given) - 1:
            stage = attrs.evolve(stage, inside=False)
        result.append((stage, dataset))
    return tuple(result)


def repeats(stages: Sequence[Stage]) -> bool:
    """Return whether all of these stages of a given data set yield the same each time."""
    for stage in stages:
        function = getattr(stage, "function", None)
        if isinstance(function, TracedFunction):
            if changing_ops(function.concrete.graph):
                return False
        elif stage.deterministic is not True:
            return False
    return not in_any_order(stages)


def source_of(dataset: Any, plan_of: PlanOf) -> Source:
    """Return the data set as a source.

    :param plan_of: makes a plan of each data set that it puts together.
    :raises NotUnderstood: if it is no source, or of an unknown kind.
    """
    name = class_name(dataset)
    if name not in _SOURCES:
        raise NotUnderstood(type(dataset).__name__)
    require("data-steps")
    return _SOURCES[name](dataset, plan_of)


def _slices(dataset: Any, _: PlanOf) -> Source:
    from tensorflow.python.data.util import structure

    specs = tf.nest.flatten(dataset.element_spec)
    if any(isinstance(spec, tf.data.DatasetSpec) for spec in specs):
        raise NotUnderstood("slices of data sets")
    count = int(dataset._tensors[0].shape[0])
    batched = tf.nest.map_structure(lambda spec: spec._batch(count), dataset.element_spec)
    value = structure.from_compatible_tensor_list(batched, dataset._tensors)
    return Source(value=value, origin="arrays", count=count)


def _one(dataset: Any, _: PlanOf) -> Source:
    from tensorflow.python.data.util import structure

    value = structure.from_compatible_tensor_list(dataset.element_spec, dataset._tensors)
    return Source(value=value, origin="tensors", count=1)


def _range(dataset: Any, _: PlanOf) -> Source:
    return _range_of(dataset, (dataset._start, dataset._stop, dataset._step))


def _range_of(dataset: Any, bounds: Iterable[Any]) -> Source:
    spec = dataset.element_spec
    signature = None if spec.dtype == tf.int64 else spec
    count = known_cardinality(dataset)
    value = tuple(map(int, bounds))
    return Source(value=value, origin="range", count=count, signature=signature)


def _enumeration(dataset: Any, _: PlanOf) -> Source:
    """Return the numbers of `enumerate`: a range that only the graph holds."""
    numbers = dataset.element_spec == tf.TensorSpec((), tf.int64)
    if not numbers or int(dataset.cardinality()) != tf.data.INFINITE_CARDINALITY:
        raise NotUnderstood("a data set from a variant")
    step, nodes = last_step(dataset)
    if step.op != "RangeDataset":
        raise NotUnderstood(step.op)
    bounds = (nodes[name.partition(":")[0]].attr["value"].tensor for name in step.input)
    return _range_of(dataset, (bound.int64_val[0] for bound in bounds))


def _zip(dataset: Any, plan_of: PlanOf) -> Source:
    from tensorflow.python.data.util import nest

    parts = nest.flatten(dataset._datasets)
    layout = nest.pack_sequence_as(dataset._datasets, list(range(len(parts))))
    if not _is_plain(layout):
        raise NotUnderstood("a zip of other structures than tuples and dicts")
    layout = None if layout == tuple(range(len(parts))) else layout
    return _of_parts(dataset, "zip", map(plan_of, parts), layout)


def _is_plain(layout: Any) -> bool:
    if isinstance(layout, int):
        return True
    if isinstance(layout, tuple):
        return all(map(_is_plain, layout))
    return type(layout) is dict and all(map(_is_plain, layout.values()))


def _concatenate(dataset: Any, plan_of: PlanOf) -> Source:
    # many data sets, one behind the other, nest as deep as there are of them
    parts: list[Any] = []
    first = dataset
    while class_name(first) == "_ConcatenateDataset":
        parts.append(first._dataset_to_concatenate)
        first = first._input_dataset
    return _of_parts(dataset, "concatenate", map(plan_of, [first, *reversed(parts)]), None)


def _of_parts(dataset: Any, origin: Origin, parts: Iterable[Any], layout: Any) -> Source:
    plans = tuple(parts)
    return Source(
        value=plans,
        origin=origin,
        count=known_cardinality(dataset),
        batched=all(plan.batched for plan in plans),
        deterministic=all(repeats(plan.stages) for plan in plans),
        layout=layout,
    )


# The function that reads a source, by its class.
_SOURCES: dict[str, Callable[[Any, PlanOf], Source]] = {
    "_TensorSliceDataset": _slices,
    "_TensorDataset": _one,
    "_RangeDataset": _range,
    "_VariantDataset": _enumeration,
    "_ZipDataset": _zip,
    "_ConcatenateDataset": _concatenate,
}
