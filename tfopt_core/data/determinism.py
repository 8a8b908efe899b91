"""Whether a stage's function yields the same each time: read from its graph."""

from __future__ import annotations

from typing import Any

from tfopt_core.data.dissect import Taken
from tfopt_core.data.graphs import changing_ops
from tfopt_core.data.lower import element_spec
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.stages import Source


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
    return changing_ops(function_graph(plan, index))


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
    import tensorflow as tf

    function = plan.stages[index].function  # type: ignore[attr-defined]
    if isinstance(function, Taken):
        return function.concrete.graph
    spec = element_spec(plan.upto(index))
    # tf.data calls a map's function with the elements of a tuple as its arguments
    arguments = spec if isinstance(spec, tuple) else (spec,)
    return tf.function(function).get_concrete_function(*arguments).graph
