"""Find in the graph of a traced step, and in its model, what costs time in each step.

Private members of TensorFlow and Keras are needed for that. Where the installed versions lack
them, the result is "unknown": None or an empty result, never an error.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without
from tfopt_core.toolkit.graphs import StepGraph, optimized_graph
from tfopt_core.training.model.layers import nested_layers

# The attributes of an op that name functions it calls.
_CALLED = ("f", "body", "then_branch", "else_branch", "branches")
LOOPS = ("While", "StatelessWhile")
# Packages whose frames are not the workload's own code.
_FRAMES_OF_OTHERS = ("tensorflow", "keras", "tfopt_core")
BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
# The operations that the runtime turns loops and branches into.
_LOWERED = ("Enter", "Exit", "Merge", "Switch", "NextIteration", *LOOPS, *BRANCHES)
PYTHON_CALLS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
# Further findings of a kind are only counted.
SHOWN = 5


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


def called_graphs(op: Any) -> list[Any]:
    """Return the graphs that an operation calls. None stands for one that cannot be read."""
    functions: list[Any] = []
    for attribute in _CALLED:
        with contextlib.suppress(ValueError):  # the operation has no such attribute
            value = op.get_attr(attribute)
            functions += value if isinstance(value, list) else [value]
    # an attribute may be no function
    return [_function_graph(op.graph, one.name) for one in functions if hasattr(one, "name")]


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
    value = tf.get_static_value(tensor)
    # Keras' recurrent layers write their number of steps as the maximum of a single number
    if value is None and tensor.op.type in ("Max", "Min", "Identity", "Cast"):
        value = tf.get_static_value(tensor.op.inputs[0])
    return None if value is None or value.size != 1 else int(value.reshape(-1)[0])


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


def augmenting_layers(model: Any) -> list[str]:
    """Return the classes of the layers that change images at random; none if they are unknown."""
    if why_without("nested-layers"):
        return []

    def augments(layer: type[Any]) -> bool:
        name, ours = layer.__name__, layer.__module__.startswith("keras.")
        return ours and (name.startswith("Rand") or name in ("AugMix", "CutMix", "MixUp"))

    classes = {type(layer) for layer in nested_layers(model)}
    return sorted(one.__name__ for one in classes if any(map(augments, one.__mro__)))


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


def graph_findings(step: StepGraph) -> Iterator[Finding]:
    """Yield the calls of Python in this step, and the loops and branches that the graph optimizer
    leaves in it: none of these if the optimized graph cannot be read.

    Runs the step once.
    """
    yield from _python_calls(step.graph)
    graphs = optimized_graph(step.run)
    if graphs is None:
        return
    unique = list(dict.fromkeys(_control_flow(step.graph, graphs[1])))
    yield from unique[:SHOWN]
    if len(unique) > SHOWN:
        yield Finding(kind=unique[0].kind, detail=f"and {len(unique) - SHOWN} more of the kind")


def _python_calls(graph: Any) -> Iterator[Finding]:
    calls = [op for op in live_operations(graph) if op.type in PYTHON_CALLS]
    for place in dict.fromkeys(place_in_code(op) for op in calls):
        yield Finding(
            kind="python-function", place=place,
            detail="each step calls a Python function (tf.numpy_function or tf.py_function), and "
            "waits for it",
            mend="write it with operations of TensorFlow or keras.ops, or compute it once an epoch",
        )  # fmt: skip


def _control_flow(graph: Any, nodes: Sequence[Any]) -> Iterator[Finding]:
    left = [node.name for node in nodes if node.op in _LOWERED]
    for op in live_operations(graph):
        # the loop of a gradient belongs to the loop that it reverses
        if op.type not in LOOPS + BRANCHES or op.name.startswith("gradient_tape/"):
            continue
        if not any(name == op.name or name.startswith(f"{op.name}/") for name in left):
            continue
        name, place = op.name, place_in_code(op)
        if op.type in BRANCHES:
            if not place:
                continue  # of Keras' own, such as an optimizer's schedule: nobody can change it
            yield Finding(
                kind="control-flow", place=place,
                detail=f"a branch is decided in each step ({name})",
                mend="where both sides are cheap, compute them and choose by tf.where",
            )  # fmt: skip
            continue
        rounds = rounds_of(op)
        times = "a loop" if rounds is None else f"a loop of {rounds:,} rounds"
        yield Finding(
            kind="control-flow", place=place,
            detail=f"{times} is run in each step, and its gradient's backwards ({name})",
            mend="compute whole tensors at once; unroll a short loop (unroll=True of a recurrent "
            "layer); XLA takes its overhead away",
        )  # fmt: skip
