"""Read some elements of a pipeline without side effects on the training that follows."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic
from typing import Any

import attrs

from tfopt_core.data.dissect.walk import graphs, has_stage
from tfopt_core.data.functions import Filter, changing_ops, side_effects
from tfopt_core.data.lower import element_spec, lower_plan
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.source import SAMPLES, Source
from tfopt_core.data.stages import Take
from tfopt_core.private_api import why_without

# The memory of a small tensor beside its values: buffer, reference count, shape and its entry in
# a container; in a shuffle 80,000 examples of ten tensors took 160 to 200 bytes a tensor.
TENSOR_OVERHEAD_BYTES = 192
# After this time the mean is taken over the elements read so far.
SECONDS = 2.0
# Stages that, read in part, discard or lock what they keep, or continue elsewhere next time.
_NOT_IN_PART = ("Cache", "Shuffle", "Snapshot", "Save", "Random")
_GENERATOR_OPS = {"EagerPyFunc", "GeneratorDataset", "PyFunc"}


def mean_bytes(
    plan: DataPlan, sample: int, seconds: float = SECONDS, now: Callable[[], float] = monotonic
) -> float | None:
    """Return the mean size of the plan's first elements, None if it cannot be read.

    Nothing is shuffled, cached or prefetched, and no function with side effects is called: a
    random layer counts its calls, so the training would draw other numbers.

    :param sample: the most examples to read; of a generator fewer are read.
    :param seconds: when to stop reading.
    """
    import tensorflow as tf

    if why_without("data-sets"):
        return None  # side effects cannot be found
    dataset = lower_plan(_bounded(still(plan), sample))
    if any(has_stage(dataset, word) for word in _NOT_IN_PART):
        return None
    if any(map(_leaves_traces, graphs(dataset))):
        return None
    if has_stage(dataset, "Generator") or plan.source.origin == "generator":
        sample = min(sample, SAMPLES)
    sizes = []
    end = now() + seconds
    try:
        for element in dataset.take(max(1, sample // (plan.batch_size or 1))):
            sizes.append(element_bytes(element))
            if now() > end:
                break
    except tf.errors.OpError:
        return None  # the training will raise it
    return math.fsum(sizes) / len(sizes) if sizes else None


def _leaves_traces(graph: Any) -> bool:
    traces = set(side_effects(changing_ops(graph)))
    if "GeneratorDataset" in traces:
        traces -= _GENERATOR_OPS  # each epoch reads it anew, and only a few elements are read here
    return bool(traces)


def still(plan: DataPlan) -> DataPlan:
    """Return the plan without the stages that only order, keep or prefetch elements."""
    rest = [stage for stage in plan.stages[1:] if stage.yields != "same"]
    return plan.with_stages([_still_source(plan.source), *rest])


def _still_source(source: Source) -> Source:
    parts = tuple(still(part) for part in source.parts)
    if all(part.stages == whole.stages for part, whole in zip(parts, source.parts, strict=True)):
        return source
    return attrs.evolve(source, value=parts)


def _bounded(plan: DataPlan, sample: int) -> DataPlan:
    """Return the plan with at most `sample` elements passed to its filter."""
    index = plan.find(Filter)
    return plan if index is None else plan.insert(index, Take(count=sample))


def overhead_bytes(plan: DataPlan) -> int:
    """Return the memory that a stored element of the plan takes beside its values."""
    import tensorflow as tf

    tensors = tf.nest.flatten(element_spec(plan), expand_composites=True)
    return TENSOR_OVERHEAD_BYTES * len(tensors)


def element_bytes(element: Any) -> int:
    """Return the bytes of all tensors of an element."""
    import tensorflow as tf

    return sum(tensor_bytes(tensor) for tensor in tf.nest.flatten(element))


def tensor_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor's values. The characters of strings count, of ragged tensors
    also the row splits, of sparse ones the indices."""
    import tensorflow as tf

    if isinstance(tensor, tf.RaggedTensor | tf.SparseTensor):
        return sum(tensor_bytes(part) for part in tf.nest.flatten(tensor, expand_composites=True))
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(tf.size(tensor)) * int(tensor.dtype.size)
