"""Find control flow and repeated computations in a train step's graph, which cost time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tfopt_core.data.graphs import is_stateful_op
from tfopt_core.hooks import Finding
from tfopt_core.training.graphs.flops import rounds_of
from tfopt_core.training.graphs.operations import (
    StepGraph,
    all_operations,
    live_operations,
    optimized_nodes,
    place_in_code,
)

LOOPS, BRANCHES = ("While", "StatelessWhile"), ("If", "StatelessIf", "Case", "StatelessCase")
# The operations that the runtime turns loops and branches into.
_LOWERED = ("Enter", "Exit", "Merge", "Switch", "NextIteration", *LOOPS, *BRANCHES)
# A repetition of fewer elements costs next to nothing, and optimizers have many.
LEAST_ELEMENTS = 1_000
# Further findings of a kind are only counted.
SHOWN = 5
# Operations that move or name values without computing any.
_NO_WORK = frozenset([
    "Const", "Identity", "IdentityN", "Placeholder", "_Arg", "_Retval", "NoOp", "ReadVariableOp",
    "Reshape", "Squeeze", "ExpandDims", "Shape", "StopGradient", "Fill", "VariableShape",
    "BroadcastGradientArgs", "Cast", "_SwitchN",
])  # fmt: skip


def graph_findings(step: StepGraph) -> Iterator[Finding]:
    """Yield the loops, branches and repetitions that the graph optimizer leaves in this step.

    Runs the step once. Yields nothing if the optimized graph cannot be read.
    """
    nodes = optimized_nodes(step.run)
    if nodes is None:
        return
    yield from _few(list(_control_flow(step.graph, nodes)))
    yield from _few(list(_repetitions(step.graph, nodes)))


def _few(findings: Sequence[Finding]) -> Iterator[Finding]:
    unique = list(dict.fromkeys(findings))
    yield from unique[:SHOWN]
    if len(unique) > SHOWN:
        yield Finding(kind=unique[0].kind, detail=f"and {len(unique) - SHOWN} more of the kind")


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


@attrs.frozen
class _Same:
    """Nodes that compute the same value."""

    op: str
    names: tuple[str, ...]


def _repetitions(graph: Any, nodes: Sequence[Any]) -> Iterator[Finding]:
    known = {op.name: op for op in all_operations(graph)}
    for same in repeated_nodes(nodes):
        ops = [known[name] for name in same.names if name in known]
        elements = _elements(ops[0]) if ops else None
        if elements is None or elements < LEAST_ELEMENTS:
            continue
        places = list(dict.fromkeys(place for op in ops if (place := place_in_code(op))))
        others = f", also at {places[1]}" if len(places) > 1 else ""
        yield Finding(
            kind="repeated-subexpression", place=places[0] if places else "",
            detail=f"{same.op} of {elements:,} numbers is computed {len(same.names)} times from "
            f"the same inputs ({', '.join(same.names[:3])}){others}",
            mend="compute it once and keep the tensor",
        )  # fmt: skip


def _elements(op: Any) -> int | None:
    shape = op.outputs[0].shape if op.outputs else None
    if shape is None or shape.rank is None or None in shape.as_list():
        return None
    return int(math.prod(shape.as_list()))


def repeated_nodes(nodes: Sequence[Any]) -> list[_Same]:
    """Return the largest expressions that occur more than once, each by its last node.

    Two nodes are the same if they share op, attributes and inputs. Reads of a variable are the
    same if the same assignments come before them; other stateful nodes never are.

    :param nodes: of a `GraphDef`.
    """
    by_name = {node.name: node for node in nodes}
    classes: dict[str, int] = {}
    numbers: dict[object, int] = {}
    for node in _in_order(nodes, by_name):
        key = _class_of(node, by_name, classes)
        classes[node.name] = numbers.setdefault(key, len(numbers))
    members: dict[int, list[str]] = {}
    for node in nodes:
        members.setdefault(classes[node.name], []).append(node.name)
    twice = {name for names in members.values() if len(names) > 1 for name in names}
    within = {
        _source(text) for node in nodes if node.name in twice for text in node.input
    }  # inputs of a larger repetition
    return [
        _Same(by_name[names[0]].op, tuple(names))
        for names in members.values()
        if len(names) > 1
        and by_name[names[0]].op not in _NO_WORK
        and not any(name in within for name in names)
    ]


def _in_order(nodes: Sequence[Any], by_name: dict[str, Any]) -> Iterator[Any]:
    """Yield inputs before the nodes that take them; a loop's back edge is cut at its Merge."""
    done: set[str] = set()
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node.name in done:
                continue
            if ready:
                done.add(node.name)
                yield node
                continue
            stack.append((node, True))
            if node.op == "Merge":
                continue
            for text in node.input:
                source = by_name.get(_source(text))
                if source is not None and source.name not in done:
                    stack.append((source, False))


def _source(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def _class_of(node: Any, by_name: dict[str, Any], classes: dict[str, int]) -> object:
    """Return a value that equal nodes share; `classes` holds those of its inputs."""
    if node.op in (*_LOWERED, "Placeholder", "_Arg"):
        return node.name
    stateful = is_stateful_op(node.op)
    if stateful and node.op != "ReadVariableOp":
        return node.name
    inputs: list[object] = []
    for text in node.input:
        source = by_name.get(_source(text))
        if text.startswith("^"):
            # order matters to what is read only after a change
            if stateful and source is not None and source.op.startswith("Assign"):
                inputs.append(text)
            continue
        name = _source(text)
        inputs.append((classes.get(name, name), text.partition(":")[2]))
    settings = sorted(
        (key, value.SerializeToString(deterministic=True))
        for key, value in node.attr.items()
        if not key.startswith("_")
    )
    return (node.op, tuple(inputs), tuple(settings))
