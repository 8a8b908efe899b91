"""Whether a stage's function yields the same each time: read from its graph."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from tfopt_core.data.dissect import Taken
from tfopt_core.data.graphs import changing_ops
from tfopt_core.data.lower import element_spec
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.stages import Source

# Of functions that were traced, by what they were called with.
_CHANGING_OPS: WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = WeakKeyDictionary()


def random_ops(plan: DataPlan, index: int) -> tuple[str, ...]:
    """The ops of the stage at `index` that may yield something else the next time.

    Random ops, values of variables and assignments to them (Keras' random layers show as both),
    prints and Python functions count. A stage that says of itself that it is deterministic is
    believed; one that says that it is not, without a graph to look into, is named by its kind.
    `graphs.side_effects` tells which of them leave traces.
    """
    stage = plan.stages[index]
    if isinstance(stage, Source) and stage.parts:
        return _of_parts(stage)
    if stage.deterministic is not None:
        return () if stage.deterministic else (stage.kind,)
    function = getattr(stage, "function", None)
    if function is None:
        return (stage.kind,)
    return _changing_ops_of(plan, index)


def _changing_ops_of(plan: DataPlan, index: int) -> tuple[str, ...]:
    """Return the `changing_ops` of a stage's function, which is traced once for each spec.

    Every plugin of a stack looks at every map, and some look at it behind several prefixes.
    """
    function = plan.stages[index].function  # type: ignore[attr-defined]
    if isinstance(function, Taken):
        return changing_ops(function.concrete.graph)
    spec = element_spec(plan.upto(index))
    try:
        of_function = _CHANGING_OPS.setdefault(function, {})
    except TypeError:  # it cannot be hashed or referred to weakly
        return changing_ops(_traced(function, spec))
    key = repr(spec)  # some specs cannot be hashed
    if key not in of_function:
        of_function[key] = changing_ops(_traced(function, spec))
    return of_function[key]


def _of_parts(source: Source) -> tuple[str, ...]:
    ops: set[str] = set()
    for part in source.parts:
        for index in range(len(part.stages)):
            ops.update(random_ops(part, index))
    return tuple(sorted(ops))


def function_graph(plan: DataPlan, index: int) -> Any:
    """The graph of the function of the stage at `index`: traced, or as it was taken apart.

    :raises Exception: whatever the workload's own function raises while it is traced.
    """
    function = plan.stages[index].function  # type: ignore[attr-defined]
    if isinstance(function, Taken):
        return function.concrete.graph
    return _traced(function, element_spec(plan.upto(index)))


def _traced(function: Any, spec: Any) -> Any:
    import tensorflow as tf

    # tf.data calls a map's function with the elements of a tuple as its arguments
    arguments = spec if isinstance(spec, tuple) else (spec,)
    return tf.function(function).get_concrete_function(*arguments).graph
