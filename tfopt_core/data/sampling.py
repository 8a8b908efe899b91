"""Some elements of a pipeline, read without leaving a trace in the training that follows."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic
from typing import Any

import attrs

from tfopt_core.data import dissect
from tfopt_core.data.graphs import changing_ops, side_effects
from tfopt_core.data.lower import element_spec, lower_plan
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.stages import Filter, Source, Take
from tfopt_core.data.stages.reading import SAMPLES
from tfopt_core.private_api import why_without

# What a small tensor takes in memory beside its own bytes: buffer, reference count, shape and the
# entry in whatever holds it; 80,000 flights of ten numbers in a shuffle took 160 to 200 a number.
TENSOR_OVERHEAD_BYTES = 192
# Elements that take longer than this to compute are estimated from fewer of them.
SECONDS = 2.0
# Read in part, these throw away or lock what they keep, or go on elsewhere the next time.
_NOT_IN_PART = ("Cache", "Shuffle", "Snapshot", "Save", "Random")
_GENERATOR_OPS = {"EagerPyFunc", "GeneratorDataset", "PyFunc"}


def mean_bytes(
    plan: DataPlan, sample: int, seconds: float = SECONDS, now: Callable[[], float] = monotonic
) -> float | None:
    """The mean size of the plan's first elements, None where that is not to be had.

    Nothing is shuffled, cached or prefetched for it, and no function is called that would leave
    traces: a random layer counts its calls, so what follows would train on other numbers.

    :param sample: how many examples are read at most; few of a generator.
    :param seconds: when to stop reading.
    """
    import tensorflow as tf

    if why_without("data-sets"):
        return None  # what would leave traces is not known
    dataset = lower_plan(_bounded(still(plan), sample))
    if any(dissect.has_stage(dataset, word) for word in _NOT_IN_PART):
        return None
    if any(map(_leaves_traces, dissect.graphs(dataset))):
        return None
    if dissect.has_stage(dataset, "Generator") or plan.source.origin == "generator":
        sample = min(sample, SAMPLES)
    sizes = []
    end = now() + seconds
    try:
        for element in dataset.take(max(1, sample // (plan.batch_size or 1))):
            sizes.append(element_bytes(element))
            if now() > end:
                break
    except tf.errors.OpError:
        return None  # whoever trains on it will be told
    return math.fsum(sizes) / len(sizes) if sizes else None


def _leaves_traces(graph: Any) -> bool:
    traces = set(side_effects(changing_ops(graph)))
    if "GeneratorDataset" in traces:
        traces -= _GENERATOR_OPS  # read anew each epoch anyway, and few elements of it here
    return bool(traces)


def still(plan: DataPlan) -> DataPlan:
    """The plan without the stages that only order, keep or run ahead."""
    rest = [stage for stage in plan.stages[1:] if stage.yields != "same"]
    return plan.with_stages([_still_source(plan.source), *rest])


def _still_source(source: Source) -> Source:
    parts = tuple(still(part) for part in source.parts)
    if all(part.stages == whole.stages for part, whole in zip(parts, source.parts, strict=True)):
        return source
    return attrs.evolve(source, value=parts)


def _bounded(plan: DataPlan, sample: int) -> DataPlan:
    """The plan that looks at so many elements only for those that its filter keeps."""
    index = plan.find(Filter)
    return plan if index is None else plan.insert(index, Take(count=sample))


def overhead_bytes(plan: DataPlan) -> int:
    """What an element of the plan takes in memory beside its own bytes, once it is kept."""
    import tensorflow as tf

    tensors = tf.nest.flatten(element_spec(plan), expand_composites=True)
    return TENSOR_OVERHEAD_BYTES * len(tensors)


def element_bytes(element: Any) -> int:
    """The bytes of all tensors of an element."""
    import tensorflow as tf

    return sum(tensor_bytes(tensor) for tensor in tf.nest.flatten(element))


def tensor_bytes(tensor: Any) -> int:
    """The bytes of a tensor's values: of strings their characters, of a ragged tensor its row
    splits too, of a sparse one its indices too."""
    import tensorflow as tf

    if isinstance(tensor, tf.RaggedTensor | tf.SparseTensor):
        return sum(tensor_bytes(part) for part in tf.nest.flatten(tensor, expand_composites=True))
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(tf.size(tensor)) * int(tensor.dtype.size)
