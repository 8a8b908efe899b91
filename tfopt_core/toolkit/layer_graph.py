"""The graph of a model's layers, as plugins read it, and the class by which they change a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfopt_core.lazy import keras

# The attribute of a model's class that holds what `trained_part` returns.
TRAINED_PART = "tfopt_trained_part"
# Methods by which a model may do something else than its graph shows.
OWN_STEPS = ("call", "train_step", "test_step", "compute_loss", "compute_metrics")


def trained_part(model: Any) -> Any:
    """Return the model that training steps call in place of this one; mostly itself.

    A plugin that computes the frozen layers before the training has steps call the rest.
    """
    return getattr(type(model), TRAINED_PART, model)


def why_no_graph(model: Any, elsewhere: str, what: str) -> str:
    """Return why the layers of a model are no graph that tells all it does, "" if they are.

    :param elsewhere: what a class of its own may do, for the reason; `what` a method of its own.
    """
    name = type(model).__name__
    if not type(model).__module__.startswith("keras."):
        return f'the class "{name}" may {elsewhere}'
    own = [method for method in OWN_STEPS if method in vars(model)]
    if own:
        return f'the model has a "{own[0]}" of its own, which may {what}'
    if isinstance(model, keras.Sequential) and not model.built:
        return "the model is not built yet; begin it with keras.Input(...)"
    if not getattr(model, "inputs", None):
        return f'the layers of "{name}" are no graph; make it with keras.Model(inputs, outputs)'
    return ""


def with_members(model: Any, mark: str, members: Mapping[str, Any]) -> None:
    """Give a model a class with these members, derived from its own. `without_members` undoes it.

    The model, its layers and its variables stay the same objects. Calling the new
    class, as a callback does to clone the model, makes a model of the original class.

    :param mark: the attribute that holds the own class.
    """
    own = type(model)

    def new(cls: Any, *args: Any, **named: Any) -> Any:
        return own(*args, **named)

    # a checkpoint of the training names the class by these
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__}
    added = {**members, **names, mark: own, "__new__": new}
    model.__class__ = type(own.__name__, (own,), added)


def without_members(model: Any, mark: str) -> None:
    """Undo `with_members`, if it was done."""
    own = vars(type(model)).get(mark)
    if own is not None:
        model.__class__ = own


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
