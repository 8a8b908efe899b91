"""The frozen part of a model, the longest prefix that computes the same in each epoch, and the rest
of it, which takes features in the place of the model's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from tfopt_core.data import all_ops, changing_ops
from tfopt_core.toolkit import (
    TRAINED_PART,
    describe,
    in_order,
    keras,
    nested_layers,
    node_of,
    np,
    parents,
    tf,
    why_no_graph,
    why_without,
    with_members,
    without_members,
)

# The key under which the features stand in the place of the model's inputs.
KEY = "tfopt_frozen_features"
# The attribute of its class that holds the model's own.
OWN_CLASS = "tfopt_own_class"


def with_head(model: Any, cut: Halves, on_traced: Callable[[], Any]) -> None:
    """Have the model take features, under `KEY`, as well as its own inputs. `without_head` undoes
    it.

    :param on_traced: called when the head is traced on features.
    """
    own = type(model)

    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if isinstance(inputs, dict) and KEY in inputs:
            on_traced()
            return cut.head(list(inputs[KEY]), training=training)
        return own.call(self, inputs, training=training, mask=mask)

    # the model takes two kinds of inputs, so it checks none
    input_spec = property(lambda self: None, lambda self, value: None)
    members = {"call": call, "input_spec": input_spec, TRAINED_PART: cut.head}
    with_members(model, OWN_CLASS, members)


def without_head(model: Any) -> None:
    """Undo `with_head`, if it was done."""
    without_members(model, OWN_CLASS)


# So many of the reasons that end the prefix are named.
MOST_NAMED = 3


@attrs.frozen(eq=False)
class Halves:
    """A model cut in two, which share their layers with it.

    :param prefix: from the model's inputs to the features, a list of tensors.
    :param traced: the prefix in training mode, as a `tf.function`: traced once for all who call it.
    :param head: from the features to the model's outputs.
    :param last: the names of the operations that make the features.
    :param weights: the frozen weights of the prefix.
    """

    prefix: Any
    traced: Any
    head: Any
    last: tuple[str, ...]
    weights: tuple[Any, ...]

    def features(self, inputs: Any) -> tuple[Any, ...]:
        """Return the features of a batch, as the model computes them while it trains."""
        given, own = tf.nest.flatten(inputs), tf.nest.flatten(_specs(self.prefix))
        if len(given) == len(own):
            # as Keras casts the inputs of a model
            cast = [tf.cast(part, spec.dtype) for part, spec in zip(given, own, strict=True)]
            inputs = tf.nest.pack_sequence_as(inputs, cast)
        return tuple(self.traced(inputs))


def halves(model: Any) -> Halves | str:
    """Return the model cut behind its frozen prefix, or why it cannot be cut.

    An operation belongs to the prefix if all before it does, it has no trainable weights and adds
    no loss, and its trace in training mode holds no operation that draws, assigns or prints.
    """
    missing = why_without("model-cut") or why_without("nested-layers")
    elsewhere = "read its inputs elsewhere than in its layers"
    if reason := missing or why_no_graph(model, elsewhere, "read its inputs"):
        return reason
    outputs, policy = keras.tree.flatten(model.outputs), model.compute_dtype
    if isinstance(model, keras.Sequential) and policy == "float64" != model.inputs[0].dtype:
        return "Keras casts what the model is called on to float64, which its inputs are not"
    nodes = list(in_order(outputs))
    ended = {node: why for node in nodes if (why := _why_it_ends(node))}
    # a layer with a seed mostly draws: looked at first, so that the rest is traced once
    seeded = [node for node in nodes if node in _frozen(nodes, ended) and _has_seed(node)]
    ended.update({node: why for node in seeded if (why := _changes(node))})
    while True:
        frozen = _frozen(nodes, ended)
        # Keras cuts no model within a layer that stands on both sides
        behind = {id(node.operation) for node in nodes if node not in frozen}
        both = [node for node in nodes if node in frozen and id(node.operation) in behind]
        if both:
            again = "is called again after the frozen part"
            ended.update({node: f'the layer "{node.operation.name}" {again}' for node in both})
            continue
        cut = _cut(nodes, outputs, frozen)
        layers = [node.operation for node in nodes if node in frozen and not node.is_input]
        weights = tuple(w for layer in layers for w in getattr(layer, "weights", ()))
        if not weights:
            ends = _reasons(nodes, frozen, ended)
            return f"nothing with weights is frozen at the model's begin: {' and '.join(ends)}"
        if not any(
            node.operation.trainable_weights
            for node in nodes
            if isinstance(node.operation, keras.Layer)
        ):
            return "no layer of the model is trainable"
        prefix = keras.Model(_inputs(model), cut)
        function, ops, masked = _traced(prefix)
        if not ops:
            break
        # what is traced alone tells which operation it is
        found = {node: why for node in nodes if node in frozen and (why := _changes(node))}
        if not found:
            return f"its frozen part holds operations that change ({', '.join(ops)})"
        ended.update(found)
    if masked:
        return f'"{_made_by(cut)[0]}", where the frozen part ends, hands a mask on'
    if prefix.losses:
        return "a layer of its frozen part adds a loss"
    ends = model.outputs[0] if isinstance(model, keras.Sequential) else model.output
    try:
        head = keras.Model(cut, ends)
    except ValueError as error:  # as of one feature from which another one is made
        return f"Keras makes no model of what is behind its frozen part: {describe(error)}"
    return Halves(prefix, function, head, _made_by(cut), weights)


def mixes_examples(cut: Halves, inputs: Any) -> bool:
    """Return whether the features of an example depend on which others share its batch.

    :param inputs: of a real batch, of which the order is changed and a part taken.
    """

    def rows(indices: Any) -> Any:
        return tf.nest.map_structure(lambda part: tf.gather(part, indices), inputs)

    count = int(tf.shape(tf.nest.flatten(inputs)[0])[0])
    whole = cut.features(inputs)
    for indices in (list(range(count))[::-1], list(range(0, count, 2))):
        for feature, part in zip(whole, cut.features(rows(indices)), strict=True):
            ours, theirs = np.asarray(feature)[indices], np.asarray(part)
            if ours.dtype.kind not in "fiub":
                ours, theirs = ours.astype("float32"), theirs.astype("float32")
            # kernels may sum in another order for another number of rows
            if not np.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(np.abs(ours).max())):
                return True
    return False


def _inputs(model: Any) -> Any:
    """Return the model's inputs in the structure in which it takes them."""
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _why_it_ends(node: Any) -> str:
    """Return why an operation is not frozen by what it says of itself, "" if it may be."""
    if node.is_input or not isinstance(node.operation, keras.Layer):
        return ""
    layer = node.operation
    if layer.trainable_weights:
        return f'the layer "{layer.name}" is trainable'
    if any(
        getattr(one, "activity_regularizer", None) is not None
        for one in [layer, *nested_layers(layer)]
    ):
        return f'the layer "{layer.name}" adds a loss for its activity'
    return ""


def _has_seed(node: Any) -> bool:
    """Return whether the layer has state beside its weights, as the seed of what it draws."""
    return isinstance(node.operation, keras.Layer) and len(node.operation.variables) > len(
        node.operation.weights
    )


def _frozen(nodes: Iterable[Any], ended: dict[Any, str]) -> set[Any]:
    frozen: set[Any] = set()
    for node in nodes:
        if node not in ended and all(parent in frozen for parent in parents(node)):
            frozen.add(node)
    return frozen


def _cut(nodes: Sequence[Any], outputs: Sequence[Any], frozen: set[Any]) -> list[Any]:
    """Return the frozen tensors that the rest of the model reads, or that are outputs."""
    read = [tensor for node in nodes if node not in frozen for tensor in node.input_tensors]
    found = {id(tensor): tensor for tensor in [*read, *outputs] if node_of(tensor) in frozen}
    return list(found.values())


def _made_by(cut: Sequence[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tensor._keras_history.operation.name for tensor in cut))


def _reasons(nodes: Sequence[Any], frozen: set[Any], ended: dict[Any, str]) -> tuple[str, ...]:
    """Return why the prefix ends, for the first operations behind it."""
    first = [
        ended[node]
        for node in nodes
        if node in ended and all(parent in frozen for parent in parents(node))
    ]
    return tuple(dict.fromkeys(first))[:MOST_NAMED]


def _changes(node: Any) -> str:
    """Return why an operation is not frozen by its trace, "" if it is."""
    if node.is_input:
        return ""
    _, ops, _ = _traced(keras.Model(list(node.input_tensors), list(node.outputs)))
    if not ops:
        return ""
    kind = "layer" if isinstance(node.operation, keras.Layer) else "operation"
    name = f'the {kind} "{node.operation.name}"'
    if _normalizes_batches(node.operation):
        return f"{name} normalizes its batches: batch normalization in training mode"
    if any("Random" in op for op in ops):
        return f"{name} draws at random"
    return f"{name} changes its state ({', '.join(ops)})"


def _normalizes_batches(operation: Any) -> bool:
    if not isinstance(operation, keras.Layer):
        return False
    return any(
        isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
        for layer in [operation, *nested_layers(operation)]
    )


def _traced(part: Any) -> tuple[Any, tuple[str, ...], bool]:
    """Return a part in training mode as a `tf.function`, the operations of its trace that may
    change, and whether its outputs have masks."""
    from keras.src.backend.common.masking import get_keras_mask

    masked: list[bool] = []

    # as Keras traces a step; AutoGraph would only cost time
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def trained(inputs: Any) -> Any:
        outputs = keras.tree.flatten(part(inputs, training=True))
        masked.extend(get_keras_mask(output) is not None for output in outputs)
        return outputs

    graph = trained.get_concrete_function(_specs(part)).graph
    changing = set(changing_ops(graph)) - {"ReadVariableOp"}
    if changing:  # stateless draws from a state that moves on
        changing |= {op for op in all_ops(graph) if op.startswith("StatelessRandomU")}
    return trained, tuple(sorted(changing)), any(masked)


def _specs(part: Any) -> Any:
    """Return the `tf.TypeSpec` structure of what a part takes."""
    return tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), _inputs(part))
