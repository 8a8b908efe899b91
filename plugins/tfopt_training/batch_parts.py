"""One training step over the parts of a batch: gradients are added, then applied once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tfopt_core.toolkit import (
    keras,
    method_replaced,
    nested_layers,
    output_losses_weighed,
    tf,
    why_without,
)

# What a model of its own may define, of which the step of a part is not known.
OWN_METHODS = ("train_step", "compute_metrics")
MEANS = ("mean", "sum_over_batch_size")
Step = Callable[[Any], Any]


def in_parts(step: Step, model: Any, parts: int, note: Callable[[str], None]) -> Step:
    """Return a training step that computes the parts of each batch one after another.

    The gradients of the parts are weighted by their share of the examples, added, and applied
    once. Losses and metrics see every example once, as in one batch.

    :param step: the model's `train_step`.
    :param parts: how many; fewer for a batch of fewer examples.
    :param note: called when the step is traced: with why it is left as it is, or with "".
    """

    def train_step(data: Any) -> Any:
        divided = why_not_divided(model, data) or _Divided.traced(step, model, parts, data)
        if isinstance(divided, str):
            note(divided)
            return step(data)
        note("")
        return divided.update()

    return train_step


def why_not_divided(model: Any, data: Any) -> str:
    """Return why the batches of a model cannot be computed in parts, "" if they can."""
    for name in OWN_METHODS:
        method = getattr(type(model), name, None)
        if method is not getattr(keras.Model, name):
            return f'the class "{type(model).__name__}" has a {name} of its own'
    if model.run_eagerly:
        return "the model runs eagerly"
    losses = [one for one in keras.tree.flatten(model.loss) if isinstance(one, keras.losses.Loss)]
    strange = [loss for loss in losses if loss.reduction not in MEANS]
    if strange:
        return (
            f'the loss "{strange[0].name}" has the reduction "{strange[0].reduction}", so that of '
            "a batch is not the mean of its parts"
        )
    leaves = [leaf for leaf in tf.nest.flatten(data) if leaf is not None]
    odd = [leaf for leaf in leaves if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank]
    if odd or not leaves:
        kind = type(odd[0]).__name__ if odd else "nothing"
        return f"a batch holds {kind}, which is not divided"
    return why_without("nested-layers") or why_without("loss-masks") or _why_layers(model)


def _why_layers(model: Any) -> str:
    """Return which layer computes with a whole batch, "" where none is known to."""
    for layer in nested_layers(model):
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            return (
                f'the layer "{layer.name}" normalizes over the batch, and would see a part of it '
                "only (batch normalization)"
            )
        if getattr(layer, "stateful", False):
            return f'the layer "{layer.name}" carries states from batch to batch'
        if getattr(layer, "activity_regularizer", None) is not None:
            return f'the layer "{layer.name}" adds a loss for its activity, of the whole batch'
    return ""


@attrs.define(eq=False)
class _Divided:
    """A batch in parts of one size, and a smaller one where that does not come out even.

    :param part: the gradients and logs of one part, as a `tf.function`.
    :param outputs: the structure of what that returns.
    :param size, whole, rest: examples of a part, number of such parts, examples left over; each a
        tensor where the size of the batch is known in the step only.
    """

    model: Any
    data: Any
    part: Any
    outputs: Any
    count: Any
    size: Any
    whole: Any
    rest: Any
    variables: list[Any]

    @classmethod
    def traced(cls, step: Step, model: Any, parts: int, data: Any) -> _Divided | str:
        """Trace the step of one part. Return the parts, or why the batch is not divided."""
        first = next(leaf for leaf in tf.nest.flatten(data) if leaf is not None)
        count = tf.shape(first)[0] if first.shape[0] is None else first.shape[0]
        size = -(-count // parts)
        variables: list[Any] = []
        masked: list[bool] = []
        applied: list[int] = []

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def part(batch: Any, share: Any) -> Any:
            kept: list[Any] = []

            def keep(grads: Any, trainable_variables: Any = None) -> None:
                kept.append((list(grads), list(trainable_variables)))

            noting = _noting_masks(model.compute_loss, masked)
            with (
                method_replaced(model.optimizer, "apply", keep),
                method_replaced(model, "compute_loss", noting),
                output_losses_weighed(model, share),
            ):
                logs = step(batch)
            applied.append(len(kept))
            gradients, variables[:] = kept[0] if kept else ([], [])
            weighted = [_weighted(*one, share) for one in zip(gradients, variables, strict=True)]
            return weighted, logs

        def spec(leaf: Any) -> Any:
            known = size if isinstance(size, int) else None
            return None if leaf is None else tf.TensorSpec([known, *leaf.shape[1:]], leaf.dtype)

        batch = tf.nest.map_structure(spec, data)
        concrete = part.get_concrete_function(batch, tf.TensorSpec((), tf.float32))
        if any(masked):
            return (
                "the outputs have a mask, so the loss is a mean over what is not masked, of which "
                "each part has another number"
            )
        if set(applied) != {1}:
            return f"the step applies gradients {applied[0]} times"
        return _why_state(model, concrete.graph) or cls(
            model=model, data=data, part=part, outputs=concrete.structured_outputs, count=count,
            size=size, whole=count // size, rest=count % size, variables=variables,
        )  # fmt: skip

    def update(self) -> Any:
        """Compute all parts, apply their gradients, and return the logs of the step."""
        found = self._whole_parts()
        if not isinstance(self.rest, int):
            found = tf.cond(self.rest > 0, lambda: self._with_rest(found), lambda: found)
        elif self.rest:
            found = self._with_rest(found)
        sums, logs = found
        gradients = [
            tf.IndexedSlices(*one, dense_shape=tf.constant(tuple(variable.shape)))
            if isinstance(one, tuple)
            else one
            for one, variable in zip(_placed(self.outputs[0], sums), self.variables, strict=True)
        ]
        self.model.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))
        return logs

    def _computed(self, begin: Any, size: Any) -> tuple[list[Any], Any]:
        """Return the gradients of a part, without those that are None, and its logs."""

        def taken(leaf: Any) -> Any:
            if leaf is None:
                return None
            rest = [0] * (leaf.shape.rank - 1)
            cut = tf.slice(leaf, [begin, *rest], [size, *(-1 for _ in rest)])
            cut.set_shape([size if isinstance(size, int) else None, *leaf.shape[1:]])
            return cut

        share = tf.cast(size, tf.float32) / tf.cast(self.count, tf.float32)
        gradients, logs = self.part(tf.nest.map_structure(taken, self.data), share)
        return [one for one in gradients if one is not None], logs

    def _whole_parts(self) -> tuple[list[Any], Any]:
        """Return the sums of the gradients over all parts of the same size, and the last logs.

        Of gradients that name the rows that they are for, those of all parts follow each other,
        as in one batch.
        """
        specs = [one for one in self.outputs[0] if one is not None]
        whole, size = self.whole, self.size

        def rows(spec: Any) -> tuple[Any, Any]:
            values, indices = (
                tf.TensorArray(one.dtype, whole, element_shape=one.shape, infer_shape=False)
                for one in (spec.values, spec.indices)
            )
            return values, indices

        def begin(spec: Any) -> Any:
            by_rows = isinstance(spec, tf.IndexedSlices | tf.IndexedSlicesSpec)
            return rows(spec) if by_rows else tf.zeros(spec.shape, spec.dtype)

        def added(index: Any, sums: Any, _: Any) -> Any:
            gradients, logs = self._computed(index * size, size)
            return (
                index + 1,
                [_joined(a, g, index) for a, g in zip(sums, gradients, strict=True)],
                logs,
            )

        def joined(one: Any) -> Any:
            return tuple(array.concat() for array in one) if isinstance(one, tuple) else one

        logs = tf.nest.map_structure(lambda one: tf.zeros(one.shape, one.dtype), self.outputs[1])
        # one after another: two at once would take the memory of two
        _, sums, logs = tf.while_loop(
            lambda index, *_: index < whole, added, (0, [begin(spec) for spec in specs], logs),
            parallel_iterations=1, maximum_iterations=whole,
        )  # fmt: skip
        return [joined(one) for one in sums], logs

    def _with_rest(self, found: tuple[list[Any], Any]) -> tuple[list[Any], Any]:
        """Return the sums and logs with those of the examples that are left over."""
        sums, _ = found
        with tf.control_dependencies(tf.nest.flatten(sums)):
            gradients, logs = self._computed(self.whole * self.size, self.rest)
        both = []
        for one, gradient in zip(sums, gradients, strict=True):
            if isinstance(one, tuple):
                own = (gradient.values, gradient.indices)
                both.append(tuple(tf.concat(pair, 0) for pair in zip(one, own, strict=True)))
            else:
                both.append(one + gradient)
        return both, logs


def _joined(sums: Any, gradient: Any, index: Any) -> Any:
    """Return the sum with one more gradient."""
    if isinstance(sums, tuple):
        values, indices = sums
        return values.write(index, gradient.values), indices.write(index, gradient.indices)
    return sums + gradient


def _placed(specs: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
    """Return the sums in the places of the variables, None for those without a gradient."""
    rest = iter(sums)
    return [None if spec is None else next(rest) for spec in specs]


def _weighted(gradient: Any, variable: Any, share: Any) -> Any:
    """Return a gradient times its part's share of the examples, in its variable's shape."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(share, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    # of a batch of unknown size TensorFlow does not know the shape of every gradient
    whole = tf.ensure_shape(gradient, variable.shape)
    return whole * tf.cast(share, gradient.dtype)


def _noting_masks(compute_loss: Callable[..., Any], masked: list[bool]) -> Callable[..., Any]:
    """Return the method, which notes whether the predictions that it is given have a mask."""
    from keras.src.backend.common.masking import get_keras_mask

    def noting(x: Any = None, y: Any = None, y_pred: Any = None, *rest: Any, **named: Any) -> Any:
        masked.extend(get_keras_mask(one) is not None for one in keras.tree.flatten(y_pred))
        return compute_loss(x, y, y_pred, *rest, **named)

    return noting


def _why_state(model: Any, graph: Any) -> str:
    """Return which weight a step assigns beside those that it trains, "" if none.

    It would be assigned once for each part.
    """
    read = {id(variable) for variable in graph.variables}
    for weight in model.non_trainable_weights:
        if id(weight.value) not in read:
            continue
        inner = graph.capture(weight.value.handle)
        if any(op.type.startswith("Assign") for op in inner.consumers()):
            return f'"{weight.path}" changes in each step, and would change with each part'
    return ""
