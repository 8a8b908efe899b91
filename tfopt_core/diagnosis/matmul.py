"""Compare a step's matrix products with how fast this machine multiplies matrices.

That share, and the peaks by dtype, tell a plugin whether another precision is worth trying.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tfopt_core.diagnosis.step_graph import LOOPS, called_graphs, live_operations, rounds_of
from tfopt_core.diagnosis.step_loops import call_seconds
from tfopt_core.hooks.machine import Machine
from tfopt_core.lazy import tf

# Of products in each type.
PEAK_SECONDS = 0.5
# Sizes are tried in order until one product takes long enough for the clock.
SIZES = (1024, 2048, 4096, 8192)
PRODUCT_SECONDS = 0.005
RUNS = 5
# The CUDA compute capability from which tensor cores support a type.
_CAPABILITIES = {"float16": (7, 0), "bfloat16": (8, 0)}
_DTYPES = ("float32", "float16", "bfloat16", "float64")


class _NotCountable(Exception):
    """A shape, the rounds of a loop or the work of an operation is not known."""


def dtypes_worth_measuring(machine: Machine, policy: str) -> tuple[str, ...]:
    """Return float32, the type that the policy computes in, and those that the hardware
    supports."""
    dtypes = ["float32", policy.removeprefix("mixed_")]
    if machine.gpus:
        weakest = min(gpu.compute_capability for gpu in machine.gpus)
        dtypes += [dtype for dtype, least in _CAPABILITIES.items() if weakest >= least]
    elif machine.has_bfloat16_cpu:
        dtypes.append("bfloat16")
    return tuple(dtype for dtype in dict.fromkeys(dtypes) if dtype in _DTYPES)


def matmul_peaks(
    machine: Machine, policy: str, sync: Callable[[], None] | None
) -> dict[str, float]:
    """Return the peaks of this machine in operations a second, by dtype."""
    return {
        dtype: matmul_peak(dtype, PEAK_SECONDS, sync)
        for dtype in dtypes_worth_measuring(machine, policy)
    }


def matmul_peak(
    dtype: str,
    seconds: float,
    sync: Callable[[], None] | None = None,
    sizes: Sequence[int] = SIZES,
) -> float:
    """Return operations a second of products of large matrices in one graph, on all threads.

    The best of some runs counts, since other processes can only slow a run down.

    :param seconds: what the runs take in all.
    :param sync: waits for the device, None on a CPU.
    """
    for size in sizes:
        timed = partial(call_seconds, products(size, dtype), sync)
        timed(2)
        one = min(timed(2), timed(2)) / 2
        if one >= PRODUCT_SECONDS:
            break
    count = max(2, round(seconds / RUNS / one))
    return 2.0 * size**3 * count / min(timed(count) for _ in range(RUNS))


def products(size: int, dtype: str) -> Any:
    """Return a function of a number of products, which are made one after another."""
    # a mean of ones is one, so any number of products neither overflows nor vanishes
    left = tf.fill((size, size), tf.cast(1 / size, dtype))

    def multiply(count: Any) -> Any:
        _, product = tf.while_loop(
            lambda done, _: done < count,
            lambda done, product: (done + 1, tf.matmul(left, product)),
            (tf.constant(0), tf.ones((size, size), dtype)),
            parallel_iterations=1,
        )
        return product[0, 0]

    return tf.function(multiply, autograph=False)


def matmul_share(operations: float | None, seconds: float, peak: float) -> float | None:
    """Return the share of the peak that so many operations in so many seconds reach.

    None where they are not known, or exceed the peak: the machine was busier while that was
    measured.
    """
    share = None if operations is None else operations / (seconds * peak)
    return share if share is None or share <= 1 else None


def operations_of(graph: Any) -> float | None:
    """Return the floating-point operations of the matrix products and convolutions in one run of
    this graph, with gradients and calls; None if they cannot be counted.

    A multiplication with its addition counts as two. Of several branches the most expensive counts;
    a loop counts with its number of rounds.
    """
    try:
        return _of_graph(graph)
    except (_NotCountable, ValueError):  # of an operation that is not built as those of Keras
        return None


def _of_graph(graph: Any) -> float:
    return math.fsum(_of_operation(op) for op in live_operations(graph))


def _of_operation(op: Any) -> float:
    if op.type.startswith("CudnnRNN"):
        raise _NotCountable  # its work does not follow from the shapes in the graph
    if op.type in _COUNTED:
        return 2.0 * _COUNTED[op.type](op)
    graphs = called_graphs(op)
    if None in graphs:
        raise _NotCountable
    body = max(map(_of_graph, graphs), default=0.0)
    if not body or op.type not in LOOPS:
        return body
    rounds = rounds_of(op)
    if rounds is None:
        raise _NotCountable
    return rounds * body


def _shape(tensor: Any) -> list[int]:
    sizes = [None] if tensor.shape.rank is None else tensor.shape.as_list()
    if None in sizes:
        raise _NotCountable
    return list(sizes)


def _matmul(op: Any) -> int:
    rows, depth = _shape(op.inputs[0])[-2:]
    transposed = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
    return math.prod(_shape(op.outputs[0])) * (rows if transposed else depth)


def _einsum(op: Any) -> int:
    terms, _, result = op.get_attr("equation").decode().partition("->")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms.split(","), op.inputs, strict=True):
        before, dots, after = term.partition("...")
        shape = _shape(tensor)
        end = len(shape) - len(after)
        axes = [*zip(before, shape, strict=False), *zip(after, shape[end:], strict=True)]
        # an ellipsis counts as one label for all its axes
        axes += [(dots, math.prod(shape[len(before) : end]))] if dots else []
        for label, size in axes:
            sizes[label] = max(size, sizes.get(label, 1))
    return math.prod(sizes.values()) if "," in terms or not result else 0


def _convolution(op: Any) -> int:
    """Return the products: each output is a sum over one filter, whose last axis is outputs."""
    filters, outputs = op.inputs[1], op.outputs[0]
    if "Backprop" in op.type:
        outputs = op.inputs[2]
        filters = op.outputs[0] if "Filter" in op.type else filters
    return math.prod(_shape(outputs)) * math.prod(_shape(filters)[:-1])


_COUNTED: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _matmul),
    "Einsum": _einsum,
    **dict.fromkeys(
        ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter",
         "Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"),
        _convolution,
    ),
}  # fmt: skip
