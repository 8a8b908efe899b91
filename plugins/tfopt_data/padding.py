"""Pad batches: changing axes to one of few lengths, a partial batch to the size of the others."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Literal

import attrs

from tfopt_core.data import (
    COMPUTED_FROM,
    MapBatches,
    PaddedBatch,
    datasets,
    element_spec,
    lower_plan,
    still,
)
from tfopt_core.plugins import DataPlan
from tfopt_core.toolkit import np, tf
from tfopt_data.rewrite import Rewrite

Lengths = tuple[int, ...] | Literal["power-of-two"]
# The axes to pad, for each tensor of a batch.
Axes = tuple[tuple[int, ...], ...]
# The most batches that are read to count their shapes, and for how many seconds.
READ_BATCHES, READ_SECONDS = 200, 1.0


def check_lengths(_: Any, attribute: Any, lengths: Lengths | None) -> None:
    """Check the setting of the lengths.

    :raises ValueError: for lengths that are not at least 1, or not ascending.
    """
    if lengths is None or lengths == "power-of-two":
        return
    if not lengths or min(lengths) < 1:
        raise ValueError(
            f"{attribute.name} must be lengths of at least 1, such as [16, 32, 64], got "
            f"{list(lengths)}"
        )
    ascending = sorted(set(lengths))
    if list(lengths) != ascending:
        raise ValueError(
            f"{attribute.name} must be ascending, got {list(lengths)}; write {ascending}"
        )


def with_few_lengths(plan: DataPlan, lengths: Lengths) -> Rewrite:
    """Return the plan with every axis of unknown length padded to one of these lengths.

    The padding stands directly behind a padded batch, with its padding values; else at the end,
    with zeros. The first axis, that of the examples, stays as it is. A longer axis is padded to
    the next multiple of the last length.
    """
    found = _changing_axes(plan)
    if isinstance(found, str):
        return Rewrite(plan, reason=found)
    before, axes, values = found
    if not plan.source.read_once:  # the training would lack what is read of it now
        shapes = shapes_read(lower_plan(still(before)), most=2)
        if len(shapes) < 2:
            read = sum(shapes.values())
            return Rewrite(
                plan, reason=f"{read:,} batches were read, of one shape: {', '.join(shapes)}"
            )
    made = MapBatches(function=padding_to(lengths, axes, values), deterministic=True)
    named = "powers of two" if lengths == "power-of-two" else ", ".join(map(str, lengths))
    padded = plan.insert(len(before.stages), made)
    return Rewrite(padded, done=f"pads to lengths of {named}")


def with_counted_shapes(rewrite: Rewrite, dataset: Any) -> Rewrite:
    """Return the rewrite with how many shapes batches have without and with it; not done unless
    these are fewer.

    :param rewrite: that of `with_few_lengths`.
    :param dataset: the data set that the model was trained on.
    """
    if not rewrite.done:
        return rewrite
    functions = [getattr(stage, "function", None) for stage in rewrite.plan.stages]
    place = next(index for index, one in enumerate(functions) if hasattr(one, "pads_to"))
    after = shapes_read(_readable(dataset))
    if rewrite.plan.source.read_once:
        words, fewer = f"{len(after)} shapes", True
    else:
        before = shapes_read(lower_plan(rewrite.plan.upto(place)))
        read = min(sum(before.values()), sum(after.values()))
        words = f"{len(before)} shapes in {read:,} batches become {len(after)}"
        fewer = len(after) < len(before)
    if not fewer:
        return Rewrite(rewrite.plan, reason=f"{words}, which are no fewer")
    done = f"{rewrite.done}: {words}"
    return attrs.evolve(rewrite, done=done, confirmed=lambda dataset: True)


def shapes_read(dataset: Any, most: int | None = None) -> dict[str, int]:
    """Return the shapes of the first batches, with the count of each.

    :param most: stops at this many shapes; None reads for a second, or 200 batches.
    """
    counts: dict[str, int] = {}
    end = monotonic() + READ_SECONDS
    for batch in dataset.take(READ_BATCHES):
        words = ", ".join(str(tuple(part.shape)) for part in tf.nest.flatten(batch))
        counts[words] = counts.get(words, 0) + 1
        if monotonic() > end or len(counts) == most:
            break
    return counts


def _readable(dataset: Any) -> Any:
    """Return the data set, or what it was computed from: a data service may have ended."""
    for part in datasets(dataset):
        below = getattr(part, COMPUTED_FROM, None)
        if below is not None:
            return _readable(below)
    return dataset


def _changing_axes(plan: DataPlan) -> tuple[DataPlan, Axes, tuple[Any, ...] | None] | str:
    """Return the plan up to where its changing axes are padded, the axes, and what each tensor is
    padded with, None for zeros; or why none is padded."""
    if plan.batching is not None:
        place, stage = plan.batching
        if isinstance(stage, PaddedBatch):
            before = plan.upto(place + 1)
            spec = element_spec(before)
            axes = _unknown_axes(spec)
            if any(axes):
                return before, axes, _padding_values(stage.values, spec)
    spec = element_spec(plan)
    axes = _unknown_axes(spec)
    if any(axes):
        return plan, axes, None
    leaves = tf.nest.flatten(spec)
    if any(isinstance(leaf, tf.RaggedTensorSpec) for leaf in leaves):
        return "ragged tensors have no padding; one trace takes them all"
    if not all(isinstance(leaf, tf.TensorSpec) and leaf.shape.rank for leaf in leaves):
        return "batches do not tell their axes"
    shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves)
    return f"all batches have one shape: {shapes}".replace("(None", "(?")


def _unknown_axes(spec: Any) -> Axes:
    """Return the axes of unknown length behind the first, for each tensor of a batch."""

    def of(leaf: Any) -> tuple[int, ...]:
        if not isinstance(leaf, tf.TensorSpec) or not leaf.shape.rank:
            return ()
        return tuple(axis for axis, size in enumerate(leaf.shape) if axis and size is None)

    return tuple(map(of, tf.nest.flatten(spec)))


def _padding_values(values: Any, spec: Any) -> tuple[Any, ...] | None:
    """Return the padding value of each tensor as a plain one; None for zeros."""
    if values is None:
        return None
    given, leaves = tf.nest.flatten(values), tf.nest.flatten(spec)
    if len(given) != len(leaves):
        given = given * len(leaves)  # one for all

    def plain(value: Any) -> Any:
        item = np.asarray(value).item()
        return item.decode() if isinstance(item, bytes) else item

    return tuple(map(plain, given))


def padding_to(lengths: Any, axes: Any, values: Any = None) -> Callable[..., Any]:
    """Return a function of a batch that pads axes to the least of these lengths that holds them.

    Nothing is cut off: what is longer than the last length is padded to its next multiple.

    :param lengths: ascending, or "power-of-two".
    :param axes: the axes to pad, for each tensor of a batch.
    :param values: what each tensor is padded with; None for zeros, or "" in texts.
    """

    def pad_lengths(*batch: Any) -> Any:
        powers = [2**power for power in range(31)]
        table = tf.constant(powers if lengths == "power-of-two" else lengths)

        def padded_size(size: Any) -> Any:
            place = tf.searchsorted(table, [size])[0]
            multiple = -(-size // table[-1]) * table[-1]
            last = tf.size(table) - 1
            return tf.where(place > last, multiple, table[tf.minimum(place, last)])

        def padded(leaf: Any, padded_axes: Any, value: Any) -> Any:
            if not padded_axes:
                return leaf
            sizes = tf.shape(leaf)
            more = [
                padded_size(sizes[axis]) - sizes[axis] if axis in padded_axes else 0
                for axis in range(leaf.shape.rank)
            ]
            if value is None:
                value = "" if leaf.dtype == tf.string else 0
            fill = tf.cast(tf.constant(value), leaf.dtype) if leaf.dtype != tf.string else value
            return tf.pad(leaf, [[0, count] for count in more], constant_values=fill)

        element = batch if len(batch) > 1 else batch[0]
        leaves = tf.nest.flatten(element)
        fills = [None] * len(leaves) if values is None else values
        return tf.nest.pack_sequence_as(element, list(map(padded, leaves, axes, fills)))

    pad_lengths.pads_to = lengths  # type: ignore[attr-defined]
    return pad_lengths


def unfit_for_padding(element_spec: Any) -> str:
    """Why batches of this structure cannot be padded, "" if they can."""
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
    return leaf if leaf.dtype.is_floating else tf.cast(leaf, tf.float32)
