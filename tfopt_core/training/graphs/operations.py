"""Read the graphs of a traced step, for a diagnosis.

Private members of TensorFlow and Keras are needed for that. Where the installed versions lack
them, the result is "unknown": None or an empty result, never an error.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.private_api import why_without
from tfopt_core.training.layers import nested_layers

# The attributes of an op that name functions it calls.
CALLED = ("f", "body", "then_branch", "else_branch", "branches")
LOOPS = ("While", "StatelessWhile")
# Packages whose frames are not the workload's own code.
_FRAMES_OF_OTHERS = ("tensorflow", "keras", "tfopt_core")


@attrs.frozen(eq=False)
class StepGraph:
    """A train step, traced for one batch: its graph, and how to run it once on that batch."""

    graph: Any
    run: Callable[[], Any]


def traced_step(model: Any, batch: Any) -> StepGraph:
    """Trace the model's train step for this very batch, so that shapes are known.

    :raises Exception: whatever the step raises while it is traced.
    """
    import tensorflow as tf

    function = tf.function(model.train_step, autograph=False)
    concrete = function.get_concrete_function(batch)
    return StepGraph(concrete.graph, lambda: function(batch))


def live_operations(graph: Any) -> list[Any]:
    """Return the operations that the graph's outputs or side effects need, in order.

    Keras adds operations for shapes only, which the graph optimizer drops.
    """
    outputs = [tensor.op for tensor in graph.outputs]
    waiting = outputs + list(getattr(graph, "control_outputs", ()))
    waiting += [op for op in graph.get_operations() if not waiting]
    seen: dict[str, Any] = {}
    while waiting:
        op = waiting.pop()
        if op.name in seen:
            continue
        seen[op.name] = op
        waiting.extend(tensor.op for tensor in op.inputs)
        waiting.extend(op.control_inputs)
    return [op for op in graph.get_operations() if op.name in seen]


def called_graphs(op: Any, attributes: Sequence[str] = CALLED) -> dict[str, Any]:
    """Return the graphs that an operation calls, by the attribute that names each. None stands for
    a graph that cannot be read."""
    graphs: dict[str, Any] = {}
    for attribute in attributes:
        try:
            value = op.get_attr(attribute)
        except ValueError:
            continue
        names = value if isinstance(value, list) else [value]
        for number, function in enumerate(names):
            if not hasattr(function, "name"):
                continue  # the attribute is no function
            key = f"{attribute}{number}" if isinstance(value, list) else attribute
            graphs[key] = _function_graph(op.graph, function.name)
    return graphs


def _function_graph(graph: Any, name: str) -> Any:
    if why_without("called-graphs"):
        return None
    try:
        return graph._get_function(name).graph
    except Exception:  # a function of the runtime's own
        return None


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
    return rounds_of(source) if source.type in LOOPS and op.inputs[2].value_index == 0 else None


def _number(tensor: Any) -> int | None:
    """Return the value of a scalar that is the same in every run."""
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    # Keras' recurrent layers write their number of steps as the maximum of a single number
    if value is None and tensor.op.type in ("Max", "Min", "Identity", "Cast"):
        value = tf.get_static_value(tensor.op.inputs[0])
    return None if value is None or value.size != 1 else int(value.reshape(-1)[0])


@attrs.frozen(eq=False)
class OptimizedGraph:
    """The nodes of a function's graph before and after the graph optimizer, functions inlined."""

    before: list[Any]
    after: list[Any]


def optimized_graph(run: Callable[[], Any]) -> OptimizedGraph | None:
    """Return what the graph optimizer makes of a function's graph, None if unknown.

    :param run: calls the function, which must not have run before.
    """
    if why_without("optimized-graphs"):
        return None
    from tensorflow.python.eager import context

    try:
        context.enable_run_metadata()
        context.context().enable_graph_collection()
        try:
            # discard what other functions have left
            context.export_run_metadata()
            run()
            metadata = context.export_run_metadata()
        finally:
            context.context().disable_graph_collection()
            context.disable_run_metadata()
        largest = max(
            metadata.function_graphs,
            key=lambda graphs: len(graphs.post_optimization_graph.node),
            default=None,
        )
        if largest is None or not largest.post_optimization_graph.node:
            return None
        return OptimizedGraph(
            list(largest.pre_optimization_graph.node), list(largest.post_optimization_graph.node)
        )
    except Exception:  # no public interface: other versions may differ
        return None


def place_in_code(op: Any) -> str:
    """Return the `file:line` of the workload's code that made the operation, "" if there is none.

    It is the innermost frame outside of TensorFlow, Keras, Python and tfopt, among those that
    were called while the step was traced.
    """
    with contextlib.suppress(Exception):
        frames = list(op.traceback)
        ours = [n for n, frame in enumerate(frames) if _belongs_to(frame.filename, ("tfopt_core",))]
        for frame in reversed(frames[ours[-1] + 1 if ours else 0 :]):
            if not _is_library(frame.filename):
                return f"{frame.filename}:{frame.lineno}"
    return ""


def _is_library(filename: str) -> bool:
    if filename.startswith("<") or "__autograph_generated" in filename:
        return True
    standard = sysconfig.get_path("stdlib")
    in_packages = "site-packages" in filename or "dist-packages" in filename
    if standard and filename.startswith(standard) and not in_packages:
        return True
    return _belongs_to(filename, _FRAMES_OF_OTHERS)


def _belongs_to(filename: str, packages: tuple[str, ...]) -> bool:
    return any(filename.startswith(f"{folder}/") for folder in map(_folder, packages) if folder)


@functools.cache
def _folder(package: str) -> str:
    spec = importlib.util.find_spec(package)
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)


def layers_without_xla(model: Any) -> tuple[str, ...] | None:
    """Return the names of the layers that XLA cannot compile; None if unknown."""
    if why_without("nested-layers"):
        return None
    layers = nested_layers(model)
    return tuple(layer.name for layer in layers if not getattr(layer, "supports_jit", True))


def supports_xla(model: Any) -> bool:
    """Return whether Keras itself would compile the model by XLA under `jit_compile="auto"`."""
    if why_without("xla-support"):
        return not layers_without_xla(model)
    from keras.src.trainers.trainer import model_supports_jit

    return bool(model_supports_jit(model))


def all_operations(graph: Any) -> Iterator[Any]:
    """Yield the live operations of a graph and of all graphs that it calls, each graph once."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        for op in live_operations(current):
            yield op
            waiting.extend(called_graphs(op).values())
