"""Find what a graph computes more than once, where TensorFlow does not merge it by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tfopt_core.data.functions import is_stateful_op
from tfopt_core.hooks import Finding
from tfopt_core.training.graphs.operations import (
    all_operations,
    live_operations,
    place_in_code,
)

# A repetition of fewer elements costs next to nothing, and optimizers have many.
LEAST_ELEMENTS = 1_000
# The operations that the runtime turns loops and branches into.
_LOWERED = frozenset([
    "Enter", "Exit", "Merge", "Switch", "NextIteration", "While", "StatelessWhile", "If",
    "StatelessIf", "Case", "StatelessCase",
])  # fmt: skip
# Operations that move or name values without computing any.
_NO_WORK = frozenset([
    "Const", "Identity", "IdentityN", "Placeholder", "_Arg", "_Retval", "NoOp", "ReadVariableOp",
    "Reshape", "Squeeze", "ExpandDims", "Shape", "StopGradient", "Fill", "VariableShape",
    "BroadcastGradientArgs", "Cast", "_SwitchN",
])  # fmt: skip


@attrs.frozen
class _Same:
    """Nodes that compute the same value."""

    op: str
    names: tuple[str, ...]


def step_repetitions(graph: Any, nodes: Sequence[Any]) -> Iterator[Finding]:
    """Yield what a train step computes twice.

    :param graph: the traced step, for the places.
    :param nodes: what the graph optimizer leaves of it.
    """
    known = {op.name: op for op in all_operations(graph)}
    for same in repeated_nodes(nodes):
        ops = [known[name] for name in same.names if name in known]
        elements = _elements(ops[0]) if ops else None
        if elements is not None and elements >= LEAST_ELEMENTS:
            yield _finding(same, ops, f"{same.op} of {elements:,} numbers")


def map_repetitions(graph: Any, split: str) -> Iterator[Finding]:
    """Yield the look-ups in a table that a function of the input pipeline makes twice.

    A look-up counts as stateful, and is made each time. tf.data merges other equal operations, as
    measured: eight equal matrix products in a map take the time of one.

    :param graph: of the function that a stage calls.
    """
    groups = _groups(list(graph.as_graph_def().node))
    number = {name: n for n, names in enumerate(groups) for name in names}
    by_inputs: dict[object, list[Any]] = {}
    for op in live_operations(graph):
        if op.type == "LookupTableFindV2":
            inputs = tuple((number[one.op.name], one.value_index) for one in op.inputs)
            by_inputs.setdefault(inputs, []).append(op)
    for ops in by_inputs.values():
        if len(ops) > 1:
            same = _Same(ops[0].type, tuple(op.name for op in ops))
            yield attrs.evolve(_finding(same, ops, "a look-up in a table"), split=split)


def _finding(same: _Same, ops: Sequence[Any], what: str) -> Finding:
    places = list(dict.fromkeys(place for op in ops if (place := place_in_code(op))))
    others = f", also at {places[1]}" if len(places) > 1 else ""
    return Finding(
        kind="repeated-subexpression",
        place=places[0] if places else "",
        detail=f"{what} is computed {len(same.names)} times from the same inputs "
        f"({', '.join(same.names[:3])}){others}, and TensorFlow does not merge them",
        mend="compute it once and keep the tensor",
    )


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
    members = _groups(nodes)
    twice = {name for names in members if len(names) > 1 for name in names}
    within: set[str] = set()  # inputs of a larger repetition
    waiting = [node for node in nodes if node.name in twice and node.op not in _NO_WORK]
    while waiting:
        for text in waiting.pop().input:
            name = _source(text)
            if not text.startswith("^") and name not in within and name in by_name:
                within.add(name)
                # what only moves a value is looked through
                waiting += [by_name[name]] if by_name[name].op in _NO_WORK else []
    return [
        _Same(by_name[names[0]].op, tuple(names))
        for names in members
        if len(names) > 1
        and by_name[names[0]].op not in _NO_WORK
        and not any(name in within for name in names)
    ]


def _groups(nodes: Sequence[Any]) -> list[list[str]]:
    """Return the names of the nodes, those of the same value together."""
    by_name = {node.name: node for node in nodes}
    classes: dict[str, int] = {}
    numbers: dict[object, int] = {}
    for node in _in_order(nodes, by_name):
        key = _class_of(node, by_name, classes)
        classes[node.name] = numbers.setdefault(key, len(numbers))
    members: dict[int, list[str]] = {}
    for node in nodes:
        members.setdefault(classes[node.name], []).append(node.name)
    return list(members.values())


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
