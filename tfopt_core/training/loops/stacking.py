"""Stack batches of one size in one tensor, as XLA needs them."""

from __future__ import annotations

from typing import Any


def why_not_stacked(spec: Any) -> str:
    """Return why batches of this specification cannot be stacked for XLA; empty if they can."""
    import tensorflow as tf

    for part in tf.nest.flatten(spec):
        if not isinstance(part, tf.TensorSpec):
            return f"batches hold a {type(part).__name__.removesuffix('Spec')}"
        if part.shape.rank is None:
            return "batches hold tensors of unknown rank"
        if not (part.dtype.is_floating or part.dtype.is_integer or part.dtype.is_bool):
            return f"batches hold {part.dtype.name} tensors"
    return ""


def sizes_of(batch: Any) -> Any:
    """Return the lengths of all axes of a batch's plain tensors, or of their specifications, in a
    vector."""
    import tensorflow as tf

    shapes = [
        tf.constant([size or 0 for size in part.shape], tf.int32)
        if isinstance(part, tf.TensorSpec)
        else tf.shape(part)
        for part in tf.nest.flatten(batch)
        if isinstance(part, tf.TensorSpec | tf.Tensor) and part.shape.rank is not None
    ]
    return tf.concat(shapes, 0) if shapes else tf.zeros([0], tf.int32)


def sized(spec: Any, sizes: Any) -> Any:
    """Return the specification with all axes known; None if some stay unknown.

    :param sizes: the result of `sizes_of` for such a batch; or its number of examples, or None.
    """
    import tensorflow as tf

    if sizes is None or isinstance(sizes, int):

        def closed(part: Any) -> Any:
            axes = list(part.shape)
            if axes and axes[0] is None:
                axes[0] = sizes
            return tf.TensorSpec(axes, part.dtype)

        result = tf.nest.map_structure(closed, spec)
        known = all(part.shape.is_fully_defined() for part in tf.nest.flatten(result))
        return result if known else None
    left = [int(size) for size in sizes]

    def taken(part: Any) -> Any:
        rank = part.shape.rank
        shape, left[:rank] = left[:rank], []
        return tf.TensorSpec(shape, part.dtype)

    return tf.nest.map_structure(taken, spec)


def stacked(iterator: Any, spec: Any, steps: int) -> Any:
    """Take the next batches of an iterator and stack them, up to the first of another size.

    :returns: the stack, padded to `steps` batches; how many of them are valid; whether a batch of
        another size ended it; and that batch.
    """
    import tensorflow as tf

    specs, open_specs = tf.nest.flatten(spec), tf.nest.flatten(iterator.element_spec)
    arrays = [tf.TensorArray(s.dtype, steps, element_shape=s.shape) for s in specs]
    whole_sizes = sizes_of(spec)

    def zeros() -> Any:
        return [tf.zeros(s.shape, s.dtype) for s in specs]

    def body(count: Any, goes_on: Any, odd: Any, batch: Any, arrays: Any) -> Any:
        following = iterator.get_next_as_optional()
        there = following.has_value()
        batch = tf.cond(there, lambda: tf.nest.flatten(following.get_value()), lambda: batch)
        goes_on = there & tf.reduce_all(sizes_of(batch) == whole_sizes)
        # padding past the end must have the size of the others
        fits = tf.cond(
            goes_on,
            lambda: [_with_shape(p, s.shape) for p, s in zip(batch, specs, strict=True)],
            zeros,
        )
        arrays = [array.write(count, part) for array, part in zip(arrays, fits, strict=True)]
        return count + tf.cast(goes_on, tf.int32), goes_on, there & ~goes_on, batch, arrays

    scalar = tf.TensorShape([])
    none = [tf.zeros([size or 0 for size in s.shape], s.dtype) for s in open_specs]
    count, _, odd, batch, arrays = tf.while_loop(
        lambda count, goes_on, *_: goes_on & (count < steps),
        body,
        (tf.constant(0), tf.constant(True), tf.constant(False), none, arrays),
        shape_invariants=(
            scalar, scalar, scalar, [s.shape for s in open_specs], [scalar for _ in arrays],
        ),
        parallel_iterations=1,
    )  # fmt: skip
    stack = tf.nest.pack_sequence_as(spec, [array.stack() for array in arrays])
    return stack, count, odd, tf.nest.pack_sequence_as(spec, batch)


def _with_shape(tensor: Any, shape: Any) -> Any:
    """Return the tensor with its static shape set."""
    import tensorflow as tf

    result = tf.identity(tensor)
    result.set_shape(shape)
    return result
