"""Whether a stage's function yields the same each time: read from its graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfopt_core.data import dissect
from tfopt_core.data.lower import lower_stages
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.stages import Filter, Interleave, Map

# Stateful by TensorFlow's definition, yet the same input gives the same output.
_REPEATABLE = frozenset(
    [
        "Assert",
        "HashTableV2",
        "If",
        "LookupTableFindV2",
        "LookupTableSizeV2",
        "PartitionedCall",
        "ReadFile",
        "StatefulIf",
        "StatefulPartitionedCall",
        "StatefulWhile",
        "While",
    ]
)


def random_ops(plan: DataPlan, index: int) -> tuple[str, ...]:
    """The ops of the stage at `index` that may yield something else the next time.

    Random ops, assignments to variables (Keras' random layers show as those) and Python
    functions count. A stage that says of itself that it is deterministic is believed; one that
    says that it is not, without a graph to look into, is named by its kind.
    """
    stage = plan.stages[index]
    if stage.deterministic is not None:
        return () if stage.deterministic else (stage.kind,)
    assert isinstance(stage, Map | Filter | Interleave)
    upstream = lower_stages(plan.stages[:index])
    return tuple(sorted(set(_stateful_ops(stage.function, upstream.element_spec))))


def _stateful_ops(function: Any, element_spec: Any) -> Iterator[str]:
    import tensorflow as tf

    # tf.data calls a map's function with the elements of a tuple as its arguments
    arguments = element_spec if isinstance(element_spec, tuple) else (element_spec,)
    graph = tf.function(function).get_concrete_function(*arguments).graph
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for library_function in definition.library.function:
        nodes.extend(library_function.node_def)
    for op in {node.op for node in nodes} - _REPEATABLE:
        if dissect.is_stateful_op(op):
            yield op
