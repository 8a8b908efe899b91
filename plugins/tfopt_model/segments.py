"""A functional model in segments, whose activations are computed again in the backward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import attrs

from tfopt_core.data import all_ops, changing_ops
from tfopt_core.toolkit import (
    in_order,
    keras,
    nested_layers,
    node_of,
    tf,
    why_without,
    with_members,
    without_members,
)

# The models whose segments a training step has traced: a later fit of a script uses its trace.
TRACED: WeakSet[Any] = WeakSet()
# Below this part of the activations there is not enough to gain for computing them twice.
LEAST_SAVING = 0.1
# The ops that tell a GELU, exact or approximate. Where no gradient needs what it is computed from,
# TensorFlow fuses it with the product before it, which rounds otherwise on a CPU.
_GELUS = ({"Erf"}, {"Erfc"}, {"Pow", "Tanh"})
# The attribute of its class that holds the model's own.
OWN_CLASS = "tfopt_whole_class"


@attrs.frozen(eq=False)
class Piece:
    """A part of a model between two places at which a single tensor is passed on.

    :param model: from the one tensor to the other; shares its layers with the whole.
    :param inside: elements of all tensors that are computed in it, for one example.
    :param passed: elements of the tensor that it passes on.
    :param why_once: why it cannot be computed twice, "" if it can.
    """

    model: Any
    inside: int
    passed: int
    why_once: str


@attrs.frozen(eq=False)
class Segment:
    """Pieces in a row that are computed again together, or as they are.

    :param again: whether they are computed again in the backward pass.
    """

    pieces: tuple[Piece, ...]
    again: bool

    @property
    def inside(self) -> int:
        """Elements of what is computed in it."""
        return sum(piece.inside for piece in self.pieces)

    def __call__(self, inputs: Any) -> Any:
        """Compute the segment in training mode."""

        def computed(tensors: Any) -> Any:
            for piece in self.pieces:
                tensors = piece.model(tensors, training=True)
            return tensors

        # what is computed again waits for its gradient, so that nothing merges the two
        return tf.recompute_grad(computed)(inputs) if self.again else computed(inputs)


def held(segments: Sequence[Segment]) -> int:
    """Return the most elements that a step holds of what the segments compute, for one example.

    What is passed on between segments stays until the backward pass; within it one segment at a
    time is computed again.
    """
    *before, last = segments
    passed = sum(segment.pieces[-1].passed for segment in before if segment.again)
    kept = sum(segment.inside for segment in before if not segment.again)
    # the backward pass begins with the last, whose activations are gone before others come back
    again = (segment.inside for segment in before if segment.again)
    return passed + kept + max(last.inside, max(again, default=0))


def grouped(pieces: Sequence[Piece], largest: int, most: int) -> list[Segment]:
    """Return the pieces in segments of at most `largest` elements, where one has several pieces.

    The last segment is not computed again: the backward pass begins with it.

    :param most: how many segments may be computed again; more pieces are computed as they are.
    """
    groups: list[list[Piece]] = []
    for piece in pieces:
        last = groups[-1] if groups else []
        joins = last and not piece.why_once and not last[-1].why_once
        if joins and sum(one.inside for one in last) + piece.inside <= largest:
            last.append(piece)
        else:
            groups.append([piece])
    segments = [Segment(tuple(group), not group[-1].why_once) for group in groups]
    if segments:
        segments[-1] = attrs.evolve(segments[-1], again=False)
    chosen = sorted((s for s in segments if s.again), key=lambda s: s.inside, reverse=True)[:most]
    return [attrs.evolve(s, again=s in chosen) for s in segments]


def cheapest(pieces: Sequence[Piece], most: int | None) -> list[Segment]:
    """Return the segments with which a step holds least.

    :param most: how many may be computed again, None for any number.
    """
    sums = {
        sum(piece.inside for piece in pieces[begin:end])
        for begin in range(len(pieces))
        for end in range(begin + 1, len(pieces) + 1)
    }
    count = len(pieces) if most is None else most
    return min((grouped(pieces, one, count) for one in sorted(sums)), key=held)


def pieces_of(model: Any, *, rounding: bool = True) -> list[Piece] | str:
    """Return the model in pieces, or why it cannot be cut.

    :param rounding: whether what is computed again may differ by rounding.
    """
    reason = _why_not_cut(model)
    if reason:
        return reason
    outputs = keras.tree.flatten(model.outputs)
    nodes = list(in_order(outputs))
    last_use = {id(tensor): len(nodes) for tensor in outputs}
    for place, node in enumerate(nodes):
        for tensor in node.input_tensors:
            last_use[id(tensor)] = max(place, last_use.get(id(tensor), 0))
    pieces, alive = [], dict[int, Any]()
    # several in the structure in which it takes them
    given = model.inputs[0] if len(model.inputs) == 1 else model.input
    for place, node in enumerate(nodes):
        alive |= {id(tensor): tensor for tensor in node.outputs}
        alive = {key: tensor for key, tensor in alive.items() if last_use.get(key, 0) > place}
        is_end = place == len(nodes) - 1
        single = next(iter(alive.values())) if len(alive) == 1 else None
        waiting = any(node_of(tensor) not in nodes[: place + 1] for tensor in model.inputs)
        if is_end:
            end = model.outputs[0] if isinstance(model, keras.Sequential) else model.output
            pieces.append(_piece(given, end, rounding))
        elif single is not None and not node.is_input and not waiting:
            pieces.append(_piece(given, single, rounding))
            given = single
    return pieces


def with_segments(model: Any, segments: Sequence[Segment]) -> None:
    """Have the model compute these segments in training, in place of those of an earlier fit.

    `without_segments` undoes it.
    """
    without_segments(model)
    own = type(model)

    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        leaves = keras.tree.flatten(inputs)
        masked = any(one is not None for one in keras.tree.flatten(mask))
        # `recompute_grad` takes dense tensors alone
        dense = all(isinstance(one, tf.Tensor) for one in leaves)
        if training is not True or masked or not dense:
            return own.call(self, inputs, training=training, mask=mask)
        TRACED.add(self)
        if len(leaves) == 1:
            [inputs] = leaves
        for segment in segments:
            inputs = segment(inputs)
        return inputs

    with_members(model, OWN_CLASS, {"call": call})


def without_segments(model: Any) -> None:
    """Undo `with_segments`, if it was done."""
    without_members(model, OWN_CLASS)


def _why_not_cut(model: Any) -> str:
    missing = why_without("model-cut") or why_without("nested-layers")
    if missing:
        return missing
    name = type(model).__name__
    functional = isinstance(model, keras.Sequential) or getattr(model, "inputs", None)
    if not type(model).__module__.startswith("keras.") or not functional or "call" in vars(model):
        return f'the layers of "{name}" are no graph; make it with keras.Model(inputs, outputs)'
    if not model.built:
        return "the model is not built yet; begin it with keras.Input(...)"
    for layer in nested_layers(model):
        if isinstance(layer, keras.layers.Masking) or getattr(layer, "mask_zero", False):
            return f'the layer "{layer.name}" makes a mask, which is not handed on between segments'
    return ""


def _piece(begin: Any, end: Any, rounding: bool) -> Piece:
    model = keras.Model(begin, end)
    given, made = keras.tree.flatten(begin), keras.tree.flatten(end)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def trained(inputs: Any) -> Any:
        return model(inputs, training=True)

    specs = keras.tree.map_structure(
        lambda one: tf.TensorSpec([1, *one.shape[1:]], one.dtype), begin
    )
    graph = trained.get_concrete_function(specs).graph
    inside = sum(
        _elements(output.shape)
        for op in graph.get_operations()
        if op.type not in ("Const", "Placeholder", "ReadVariableOp")
        for output in op.outputs
        if output.dtype.is_floating
    )
    passed = sum(_elements(one.shape) for one in made)
    return Piece(model, inside, passed, _why_once(model, graph, given, rounding))


def _elements(shape: Any) -> int:
    """Return how many elements a tensor has; what is unknown of its shape counts as one."""
    known = tf.TensorShape(shape)
    return 1 if known.rank is None else math.prod(int(size or 1) for size in known)


def _why_once(model: Any, graph: Any, given: Sequence[Any], rounding: bool) -> str:
    """Return why a piece cannot be computed twice in a step, "" if it can."""
    layers = nested_layers(model)
    names = ", ".join(f'"{layer.name}"' for layer in layers if layer.trainable_weights) or "a part"
    if not all("float" in str(tensor.dtype) for tensor in given):
        return f"{names}: its inputs are no floating-point numbers"
    changing = set(changing_ops(graph)) - {"ReadVariableOp"}
    changing |= {op for op in all_ops(graph) if op.startswith("StatelessRandom")}
    if changing:
        stateful = [one for one in layers if len(one.variables) > len(one.trainable_weights)]
        named = ", ".join(f'"{one.name}"' for one in stateful) or names
        return f"{named}: it draws at random or changes its state ({', '.join(sorted(changing))})"
    regularized = sum(weight.regularizer is not None for weight in model.trainable_weights)
    if len(model.losses) > regularized:
        return f"{names}: it adds a loss"
    if not rounding and any(one <= all_ops(graph) for one in _GELUS):
        return f"{names}: GELU would be rounded otherwise on a CPU (rounding = true)"
    return ""
