"""The graph of layers of a functional model: its nodes, and in which order they compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def node_of(tensor: Any) -> Any:
    """Return the node that makes a symbolic tensor."""
    history = tensor._keras_history
    return history.operation._inbound_nodes[history.node_index]


def parents(node: Any) -> Iterator[Any]:
    """Yield the nodes whose tensors a node reads."""
    return (node_of(tensor) for tensor in node.input_tensors)


def in_order(outputs: Sequence[Any]) -> Iterator[Any]:
    """Yield the nodes of a graph, each behind all that it reads."""
    seen: set[Any] = set()
    stack = [(node_of(tensor), False) for tensor in reversed(outputs)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in parents(node) if parent not in seen]
