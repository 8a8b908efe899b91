"""What of a plan may yield something else the next time, and the bytes of its elements."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data.dissect.walk import TracedFunction
from tfopt_core.data.functions import changing_ops
from tfopt_core.data.lower import element_spec
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.source import Source
from tfopt_core.lazy import tf

# The memory of a small tensor beside its values: buffer, reference count, shape and its entry in
# a container; in a shuffle 80,000 examples of ten tensors took 160 to 200 bytes a tensor.
TENSOR_OVERHEAD_BYTES = 192
# The changing ops of traced functions, by the spec they were traced for.
_CHANGING_OPS: WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = WeakKeyDictionary()


def random_ops(plan: DataPlan, index: int) -> tuple[str, ...]:
    """Return the ops of the stage at `index` that may yield something else the next time.

    Random ops, values of variables and assignments to them (Keras' random layers have both),
    prints and Python functions count. A stage that declares itself deterministic is trusted; for
    one that declares the opposite its kind is returned.
    """
    stage = plan.stages[index]
    if isinstance(stage, Source) and stage.parts:
        ops = {
            op
            for part in stage.parts
            for i in range(len(part.stages))
            for op in random_ops(part, i)
        }
        return tuple(sorted(ops))
    if stage.deterministic is not None:
        return () if stage.deterministic else (stage.kind,)
    if getattr(stage, "function", None) is None:
        return (stage.kind,)
    return _changing_ops_of(plan, index)


def _changing_ops_of(plan: DataPlan, index: int) -> tuple[str, ...]:
    """Return the `changing_ops` of a stage's function, which is traced once for each spec.

    Every plugin of a stack examines every map, some of them behind several prefixes.
    """
    function = getattr(plan.stages[index], "function", None)
    if isinstance(function, TracedFunction):
        return changing_ops(function.concrete.graph)
    spec = element_spec(plan.upto(index))
    try:
        of_function = _CHANGING_OPS.setdefault(function, {})
    except TypeError:  # the function cannot be hashed or weakly referenced
        return changing_ops(_traced(function, spec))
    key = repr(spec)  # some specs cannot be hashed
    if key not in of_function:
        of_function[key] = changing_ops(_traced(function, spec))
    return of_function[key]


def function_graph(plan: DataPlan, index: int) -> Any:
    """Return the graph of the function of the stage at `index`, traced if necessary.

    :raises Exception: whatever the workload's own function raises while it is traced.
    """
    function = getattr(plan.stages[index], "function", None)
    if isinstance(function, TracedFunction):
        return function.concrete.graph
    return _traced(function, element_spec(plan.upto(index)))


def _traced(function: Any, spec: Any) -> Any:
    # tf.data calls a map's function with the elements of a tuple as its arguments
    arguments = spec if isinstance(spec, tuple) else (spec,)
    return tf.function(function).get_concrete_function(*arguments).graph


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
    tensors = tf.nest.flatten(element_spec(plan), expand_composites=True)
    return TENSOR_OVERHEAD_BYTES * len(tensors)


def element_bytes(element: Any) -> int:
    """Return the bytes of all tensors of an element."""
    return sum(tensor_bytes(tensor) for tensor in tf.nest.flatten(element))


def tensor_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor's values. The characters of strings count, of ragged tensors
    also the row splits, of sparse ones the indices; None and an empty optional have none."""
    if tensor is None or isinstance(tensor, tf.experimental.Optional):
        return 0
    if isinstance(tensor, tf.RaggedTensor | tf.SparseTensor):
        return sum(tensor_bytes(part) for part in tf.nest.flatten(tensor, expand_composites=True))
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(tf.size(tensor)) * int(tensor.dtype.size)
