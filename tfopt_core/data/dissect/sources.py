"""Recognize the sources of a given data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tfopt_core.data.dissect.graphdef import last_step
from tfopt_core.data.dissect.repeating import repeats
from tfopt_core.data.dissect.walk import NotUnderstood, class_name, known_cardinality, require
from tfopt_core.data.stages import Source
from tfopt_core.data.stages.source import Origin

# Makes a `DataPlan` of a `tf.data.Dataset`.
PlanOf = Callable[[Any], Any]


def source_of(dataset: Any, plan_of: PlanOf) -> Source:
    """Return the data set as a source.

    :param plan_of: makes a plan of each data set that it puts together.
    :raises NotUnderstood: if it is no source, or of an unknown kind.
    """
    name = class_name(dataset)
    if name in _COMBINED:
        feature, combine = _COMBINED[name]
        require("data-steps", feature)
        return combine(dataset, plan_of)
    if name not in _SOURCES:
        raise NotUnderstood(type(dataset).__name__)
    feature, read = _SOURCES[name]
    require("data-steps", feature)
    return read(dataset)


def _slices(dataset: Any) -> Source:
    import tensorflow as tf
    from tensorflow.python.data.util import structure

    require("data-step-array-specs")
    specs = tf.nest.flatten(dataset.element_spec)
    if any(isinstance(spec, tf.data.DatasetSpec) for spec in specs):
        raise NotUnderstood("slices of data sets")
    count = int(dataset._tensors[0].shape[0])
    batched = tf.nest.map_structure(lambda spec: spec._batch(count), dataset.element_spec)
    value = structure.from_compatible_tensor_list(batched, dataset._tensors)
    return Source(value=value, origin="arrays", count=count)


def _one(dataset: Any) -> Source:
    from tensorflow.python.data.util import structure

    value = structure.from_compatible_tensor_list(dataset.element_spec, dataset._tensors)
    return Source(value=value, origin="tensors", count=1)


def _range(dataset: Any) -> Source:
    bounds = tuple(int(bound) for bound in (dataset._start, dataset._stop, dataset._step))
    return _range_of(dataset, bounds)


def _range_of(dataset: Any, bounds: tuple[int, ...]) -> Source:
    import tensorflow as tf

    spec = dataset.element_spec
    signature = None if spec.dtype == tf.int64 else spec
    count = known_cardinality(dataset)
    return Source(value=bounds, origin="range", count=count, signature=signature)


def _enumeration(dataset: Any) -> Source:
    """Return the numbers of `enumerate`: a range that only the graph holds."""
    import tensorflow as tf

    numbers = dataset.element_spec == tf.TensorSpec((), tf.int64)
    if not numbers or int(dataset.cardinality()) != tf.data.INFINITE_CARDINALITY:
        raise NotUnderstood("a data set from a variant")
    step, nodes = last_step(dataset)
    if step.op != "RangeDataset":
        raise NotUnderstood(step.op)
    bounds = (nodes[name.partition(":")[0]].attr["value"].tensor for name in step.input)
    return _range_of(dataset, tuple(int(bound.int64_val[0]) for bound in bounds))


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


# By class: the feature of `tfopt_core.private_api` that it needs, and the function that reads it.
_SOURCES: dict[str, tuple[str, Callable[[Any], Source]]] = {
    "_TensorSliceDataset": ("data-step-arrays", _slices),
    "_TensorDataset": ("data-step-tensors", _one),
    "_RangeDataset": ("data-step-range", _range),
    "_VariantDataset": ("data-step-enumerate", _enumeration),
}
# Sources made of several data sets.
_COMBINED: dict[str, tuple[str, Callable[[Any, PlanOf], Source]]] = {
    "_ZipDataset": ("data-step-zip", _zip),
    "_ConcatenateDataset": ("data-step-concatenate", _concatenate),
}
