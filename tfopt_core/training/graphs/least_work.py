"""Count the least that a step must compute and move, for a bound that holds.

The count is a lower bound: what is unknown counts nothing and is named, of several branches the
cheapest counts, and equal operations count once, since the graph optimizer merges them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any

import attrs

from tfopt_core.training.graphs.flops import COUNTED, UNCOUNTABLE, NotCountable, rounds_of
from tfopt_core.training.graphs.operations import called_graphs, live_operations
from tfopt_core.training.layers import nested_layers

_LOOPS = ("While", "StatelessWhile")
# The operations of a loop's condition that does nothing but count its rounds.
_COUNTING = frozenset([
    "Placeholder", "Const", "Less", "LogicalAnd", "Identity", "NoOp", "Cast",
])  # fmt: skip
# Outputs that fast convolutions of GPU libraries compute at once along an axis, for filters of
# 3 x 3 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
_WINOGRAD_TILE = 4


@attrs.frozen
class LeastWork:
    """The least floating-point operations of a step's matrix products and convolutions.

    :param uncounted: what could not be counted and is left out, each once.
    """

    operations: float
    uncounted: tuple[str, ...] = ()


def least_work(graph: Any, *, fast_convolutions: bool) -> LeastWork:
    """Return the least work of one run of this graph, with gradients and calls.

    :param fast_convolutions: whether the device's libraries may multiply less in a convolution
        than its definition says, as those of GPUs do.
    """
    counter = _Counter(fast_convolutions)
    operations = counter.of(graph)
    return LeastWork(operations, tuple(dict.fromkeys(counter.uncounted)))


class _Counter:
    """Counts graphs, and gathers what cannot be counted."""

    def __init__(self, fast_convolutions: bool) -> None:
        self.fast_convolutions = fast_convolutions
        self.uncounted: list[str] = []

    def of(self, graph: Any) -> float:
        counts = {identity: op for identity, op in _identities(graph) if _may_count(op)}
        return sum(self._of_operation(op) for op in counts.values())

    def _of_operation(self, op: Any) -> float:
        if op.type.startswith(UNCOUNTABLE):
            self.uncounted.append(op.type)
            return 0.0
        try:
            return self._of_definition(op) if op.type in COUNTED else self._of_calls(op)
        except NotCountable as reason:
            self.uncounted.append(str(reason))
            return 0.0

    def _of_calls(self, op: Any) -> float:
        graphs = called_graphs(op)
        if not graphs:
            return 0.0
        if any(graph is None for graph in graphs.values()):
            raise NotCountable(f"{op.name} calls a function that cannot be read")
        inner = min(self.of(graph) for graph in graphs.values())
        if op.type not in _LOOPS or not inner:
            return inner
        rounds = rounds_of(op)
        if rounds is None or not _only_counts(op):
            raise NotCountable(f"the number of rounds of {op.name} is unknown")
        return rounds * inner

    def _of_definition(self, op: Any) -> float:
        """Return the operations that the definition asks for, less those that a fast convolution
        leaves out."""
        operations = COUNTED[op.type](op)
        if not self.fast_convolutions or not op.type.startswith(("Conv2D", "Conv3D")):
            return operations
        is_gradient = "BackpropFilter" in op.type
        filters = (op.outputs[0] if is_gradient else op.inputs[1]).shape.as_list()
        return operations / math.prod(_saving(size or 1) for size in filters[:-2])


def _saving(size: int) -> float:
    """Return by how much a fast algorithm may reduce the multiplications along an axis."""
    # above three, libraries may transform by Fourier's method: one multiplication an output is left
    return _WINOGRAD_TILE * size / (_WINOGRAD_TILE + size - 1) if size <= 3 else float(size)


def _may_count(op: Any) -> bool:
    return op.type in COUNTED or op.type.startswith(UNCOUNTABLE) or bool(called_graphs(op))


def _identities(graph: Any) -> Iterator[tuple[Hashable, Any]]:
    """Yield each live operation with what it computes: equal where the values are the same.

    Reads of one variable are taken as equal, though an assignment may lie between: that can only
    make the count smaller.
    """
    known: dict[str, Hashable] = {}
    for op in live_operations(graph):
        if op.op_def is None or (op.op_def.is_stateful and op.type != "ReadVariableOp") or (
            not op.inputs and op.type != "Const"
        ):  # fmt: skip
            known[op.name] = op.name
        else:
            inputs = tuple((known.get(tensor.op.name, tensor.op.name), tensor.value_index)
                           for tensor in op.inputs)  # fmt: skip
            # interned by hash: nested tuples would grow with the depth of the graph
            known[op.name] = hash((op.type, _attributes(op), inputs))
        yield known[op.name], op


def _attributes(op: Any) -> bytes:
    node = op.node_def
    kept = type(node)(op=node.op)
    for name, value in node.attr.items():
        if not name.startswith("_"):
            kept.attr[name].CopyFrom(value)
    return bytes(kept.SerializeToString(deterministic=True))


def _only_counts(op: Any) -> bool:
    """Return whether a loop ends by its number of rounds alone, not by what it computes."""
    condition = called_graphs(op, ("cond",)).get("cond")
    return condition is not None and all(
        one.type in _COUNTING for one in live_operations(condition)
    )


def least_state_bytes(model: Any) -> float:
    """Return the bytes of the weights and optimizer variables that each step reads and writes.

    Embeddings are left out, since a step may touch single rows of them.
    """
    import keras

    rows = {
        variable.path
        for layer in nested_layers(model)
        if isinstance(layer, keras.layers.Embedding)
        for variable in layer.variables
    }
    updated = [one for one in model.trainable_variables if one.path not in rows]
    sparse_shapes = {tuple(one.shape) for one in model.trainable_variables if one.path in rows}
    shapes = {tuple(one.shape) for one in updated} - sparse_shapes - {()}
    slots = [one for one in model.optimizer.variables if tuple(one.shape) in shapes]
    return float(sum(_bytes_of(one) for one in (*updated, *slots)))


def _bytes_of(variable: Any) -> int:
    return int(math.prod(variable.shape) * variable.value.dtype.size)
