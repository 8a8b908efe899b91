"""Read from a function's graph whether equal inputs give equal outputs, and its side effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfopt_core.private_api import why_without

# Stateful by TensorFlow's definition, yet the same input gives the same output.
_REPEATABLE = frozenset(
    [
        "AnonymousHashTable",
        "Assert",
        "FixedLengthRecordDatasetV2",
        "HashTableV2",
        "If",
        "LookupTableFindV2",
        "LookupTableSizeV2",
        "MatchingFiles",
        "PartitionedCall",
        "RangeDataset",
        "ReadFile",
        "StatefulIf",
        "StatefulPartitionedCall",
        "StatefulWhile",
        "StatelessRandomGetAlg",
        "TFRecordDataset",
        "TFRecordDatasetV2",
        "TensorDataset",
        "TensorSliceDataset",
        "TextLineDataset",
        "While",
    ]
)
# Not repeatable, but without side effects.
_TRACELESS = frozenset(
    [
        "AnonymousRandomSeedGenerator",
        "CacheDatasetV2",
        "DummyMemoryCache",
        "DummySeedGenerator",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomCrop",
        "RandomDatasetV2",
        "RandomGamma",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "ReadVariableOp",
        "SampleDistortedBoundingBoxV2",
        "ShuffleDatasetV3",
        "TruncatedNormal",
    ]
)


def changing_ops(graph: Any) -> tuple[str, ...]:
    """Return the ops of a function's graph whose output may differ from call to call.

    These are random ops, values of variables, Python functions and side effects, also those of
    called functions.

    :param graph: a `tf.Graph`, as a `ConcreteFunction` has it.
    """
    return tuple(sorted(op for op in all_ops(graph) - _REPEATABLE if is_stateful_op(op)))


def all_ops(graph: Any) -> set[str]:
    """Return the types of all ops of a function's graph, and of all functions that it calls."""
    definition = graph.as_graph_def()
    ops = {node.op for node in definition.node}
    for library_function in definition.library.function:
        ops.update(node.op for node in library_function.node_def)
    return ops


def side_effects(ops: Iterable[str]) -> tuple[str, ...]:
    """Return those of the `changing_ops` that have side effects. These are assignments (the state
    of a random layer is a variable), prints, Python functions and unknown ops."""
    return tuple(op for op in ops if op not in _TRACELESS)


def is_stateful_op(name: str) -> bool:
    """Return whether TensorFlow registers the op as stateful: random, or with a side effect.

    An unknown op counts as stateful, and so does every op if the registry cannot be read.
    """
    if why_without("random-operations"):
        return True
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(name)
    return definition is None or bool(definition.is_stateful)
