"""Count the floating-point operations of a step's matrix products and convolutions.

A multiplication with its addition counts as two. Element-wise operations are not counted, since
the figure is compared with the machine's peak in matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tfopt_core.training.graphs.operations import called_graphs, live_operations

# Operations whose FLOPs do not follow from the shapes in the graph.
UNCOUNTABLE = ("CudnnRNN", "BlockLSTM", "GRUBlock", "LSTMBlock", "XlaLaunch", "MklQuantized")


class NotCountable(Exception):
    """The operations of a graph cannot be counted; the text says why."""


def operations_of(graph: Any) -> float:
    """Return the floating-point operations of one run of this graph, with gradients and calls.

    Of several branches the most expensive counts; loops count with their number of rounds.

    :raises NotCountable: if a shape or a number of rounds is unknown.
    """
    return math.fsum(_of(op) for op in live_operations(graph))


def _of(op: Any) -> float:
    if op.type.startswith(UNCOUNTABLE):
        raise NotCountable(f"the operations of {op.type} are unknown")
    count = COUNTED.get(op.type)
    if count is not None:
        return count(op)
    graphs = called_graphs(op)
    if not graphs:
        return 0.0
    if any(graph is None for graph in graphs.values()):
        raise NotCountable(f"{op.name} calls a function that cannot be read")
    inner = [operations_of(graph) for graph in graphs.values()]
    if op.type not in ("While", "StatelessWhile"):
        return max(inner)
    body = max(inner)
    if not body:
        return 0.0
    rounds = rounds_of(op)
    if rounds is None:
        raise NotCountable(f"the number of rounds of {op.name} is unknown")
    return rounds * body


def rounds_of(op: Any) -> int | None:
    """Return how many rounds a while loop makes, None if its graph does not tell.

    A loop counts up to its second input; the loop of a gradient as far as the one it reverses.
    """
    if len(op.inputs) < 3:
        return None
    most = _number(op.inputs[1])
    if most is not None and most >= 0:
        return most
    source = op.inputs[2].op
    if source.type in ("While", "StatelessWhile") and op.inputs[2].value_index == 0:
        return rounds_of(source)
    return None


def _number(tensor: Any) -> int | None:
    """Return the value of a scalar that is the same in every run."""
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    # Keras' recurrent layers write their number of steps as the maximum of a single number
    if value is None and tensor.op.type in ("Max", "Min", "Identity", "Cast"):
        value = tf.get_static_value(tensor.op.inputs[0])
    return None if value is None or value.size != 1 else int(value.reshape(-1)[0])


def _shape(tensor: Any) -> list[int]:
    sizes = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    if any(size is None for size in sizes):
        raise NotCountable(f"the shape of {tensor.name} is unknown")
    return list(sizes)


def _shape_from_input(op: Any, index: int) -> list[int]:
    """Return the shape that an input of sizes holds, else that of the output."""
    import tensorflow as tf

    sizes = tf.get_static_value(op.inputs[index])
    return _shape(op.outputs[0]) if sizes is None else [int(size) for size in sizes]


def _matmul(op: Any) -> float:
    left = _shape(op.inputs[0])
    depth = left[0] if op.get_attr("transpose_a") else left[1]
    return 2.0 * math.prod(_shape(op.outputs[0])) * depth


def _batch_matmul(op: Any) -> float:
    left = _shape(op.inputs[0])
    depth = left[-2] if op.get_attr("adj_x") else left[-1]
    return 2.0 * math.prod(_shape(op.outputs[0])) * depth


def _einsum(op: Any) -> float:
    left, _, right = op.get_attr("equation").decode().partition("->")
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, op.inputs, strict=True):
        _name_sizes(term, _shape(tensor), sizes)
    return 2.0 * math.prod(sizes.values()) if len(terms) > 1 or not right else 0.0


def _name_sizes(term: str, shape: Sequence[int], sizes: dict[str, int]) -> None:
    """Store the size of each label; an ellipsis counts as one label for all its axes."""
    before, dots, after = term.partition("...")
    named = list(zip(before, shape, strict=False))
    if after:
        named += list(zip(after, shape[-len(after) :], strict=True))
    for label, size in named:
        sizes[label] = max(size, sizes.get(label, 1))
    if dots:
        between = math.prod(shape[len(before) : len(shape) - len(after)])
        sizes["..."] = max(between, sizes.get("...", 1))


def _convolution(filters: Callable[[Any], list[int]], positions: Callable[[Any], Any]) -> Any:
    """Return a counter: each output is a sum over one filter, whose last axis is outputs."""

    def count(op: Any) -> float:
        return 2.0 * math.prod(_shape(positions(op))) * math.prod(filters(op)[:-1])

    return count


def _depthwise(filters: Callable[[Any], list[int]], positions: Callable[[Any], Any]) -> Any:
    """Return a counter where each channel has its own filter, so the third axis adds nothing."""

    def count(op: Any) -> float:
        return 2.0 * math.prod(_shape(positions(op))) * math.prod(filters(op)[:-2])

    return count


def _filter_is_input(op: Any) -> list[int]:
    return _shape(op.inputs[1])


def _filter_from_input(op: Any) -> list[int]:
    return _shape_from_input(op, 1)


def _output(op: Any) -> Any:
    return op.outputs[0]


def _gradient_of_output(op: Any) -> Any:
    return op.inputs[2]


COUNTED: dict[str, Callable[[Any], float]] = {
    "MatMul": _matmul,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matmul),
    "Einsum": _einsum,
    **dict.fromkeys(("Conv2D", "Conv3D"), _convolution(_filter_is_input, _output)),
    **dict.fromkeys(
        ("Conv2DBackpropInput", "Conv3DBackpropInputV2"),
        _convolution(_filter_is_input, _gradient_of_output),
    ),
    **dict.fromkeys(
        ("Conv2DBackpropFilter", "Conv3DBackpropFilterV2"),
        _convolution(_filter_from_input, _gradient_of_output),
    ),
    "DepthwiseConv2dNative": _depthwise(_filter_is_input, _output),
    "DepthwiseConv2dNativeBackpropInput": _depthwise(_filter_is_input, _gradient_of_output),
    "DepthwiseConv2dNativeBackpropFilter": _depthwise(_filter_from_input, _gradient_of_output),
}
