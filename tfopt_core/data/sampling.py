"""The bytes of elements, and a plan to read some of them from."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.data.lower import element_spec
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.source import Source

# The memory of a small tensor beside its values: buffer, reference count, shape and its entry in
# a container; in a shuffle 80,000 examples of ten tensors took 160 to 200 bytes a tensor.
TENSOR_OVERHEAD_BYTES = 192


def still(plan: DataPlan) -> DataPlan:
    """Return the plan without the stages that only order, keep or prefetch elements."""
    rest = [stage for stage in plan.stages[1:] if stage.yields != "same"]
    return plan.with_stages([_still_source(plan.source), *rest])


def _still_source(source: Source) -> Source:
    parts = tuple(still(part) for part in source.parts)
    if all(part.stages == whole.stages for part, whole in zip(parts, source.parts, strict=True)):
        return source
    return attrs.evolve(source, value=parts)


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
