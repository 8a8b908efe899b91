"""How a partial batch is filled up so that its mean loss stays that of its real examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def unfit_for_padding(element_spec: Any) -> str:
    """Why batches of this structure cannot be padded, "" if they can."""
    import tensorflow as tf

    if not isinstance(element_spec, tuple) or len(element_spec) not in (2, 3):
        return "weights can be added to batches (x, y) or (x, y, weights) only"
    for leaf in tf.nest.flatten(element_spec):
        if not isinstance(leaf, tf.TensorSpec) or not leaf.shape.rank:
            return "ragged, sparse and scalar parts of a batch cannot be padded"
    return ""


def why_not_weighted(element_spec: Any, model: Any) -> str:
    """Why one weight an example does not weigh the losses of this model, "" if it does.

    A loss is the mean over a prediction's last axis, so it is one number an example where
    predictions have two axes; with more (tokens, pixels) Keras would multiply the weights along
    the wrong one. Weights of the workload's own that have more axes are taken as they are.

    :param element_spec: of a batch after `padding`.
    """
    import tensorflow as tf

    _, labels, weights = element_spec
    if all(leaf.shape.rank > 1 for leaf in tf.nest.flatten(weights)):
        return ""
    try:
        outputs = tf.nest.flatten(model.outputs)
    except AttributeError:  # a model that is not made of layers called on inputs does not tell
        outputs = []
    for output in outputs:
        if len(output.shape) != 2:
            return f"an output of the model has {len(output.shape)} axes, of which weights know one"
    if not outputs:
        for leaf in tf.nest.flatten(labels):
            if leaf.shape.rank > 2 or (leaf.shape.rank == 2 and leaf.shape[-1] != 1):
                return (
                    f"the model does not tell the shape of its outputs, and labels of the shape "
                    f"{leaf.shape} may have a loss for each of their elements"
                )
    return ""


def padding(size: int) -> Callable[..., Any]:
    """A function of a batch that fills it up to `size` examples.

    It repeats examples of the same batch with weight 0: a model sees nothing but real ones. The
    weights of the others are multiplied by size / count, since Keras divides the sum of weighted
    losses by the number of all examples.

    :returns: a function of (x, y) or (x, y, weights) that returns (x, y, weights).
    """

    def pad_last_batch(x: Any, y: Any, weights: Any = None) -> Any:
        import tensorflow as tf

        count = tf.shape(tf.nest.flatten(x)[0])[0]
        if weights is None:
            weights = tf.ones([count])
        weights = tf.nest.map_structure(_as_float, weights)

        def padded() -> Any:
            index = tf.range(size) % count
            share = tf.where(tf.range(size) < count, size / count, 0.0)

            def repeated(leaf: Any) -> Any:
                return tf.gather(leaf, index)

            def weighted(leaf: Any) -> Any:
                factors = tf.reshape(share, [size] + [1] * (leaf.shape.rank - 1))
                return repeated(leaf) * tf.cast(factors, leaf.dtype)

            fill = tf.nest.map_structure
            return fill(repeated, x), fill(repeated, y), fill(weighted, weights)

        batch = tf.cond(count == size, lambda: (x, y, weights), padded)
        return tf.nest.map_structure(
            lambda leaf: tf.ensure_shape(leaf, [size, *leaf.shape[1:]]), batch
        )

    return pad_last_batch


def _as_float(leaf: Any) -> Any:
    import tensorflow as tf

    return leaf if leaf.dtype.is_floating else tf.cast(leaf, tf.float32)
