"""Whether a function of one example may be applied to whole batches, found out on a sample."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tfopt_core.data import Batch, Take, element_spec, lower_plan
from tfopt_core.plugins import DataPlan
from tfopt_core.toolkit import np, tf
from tfopt_data.prefix import unsteady_stage

# Two whole batches and a partial one of at most so many examples are compared.
SAMPLE_BATCH = 8
# Reordered sums and fused operations move a few of the last bits.
_ROUNDING_STEPS = 64
# The distance from 1 to the next number, of the types that round.
_STEPS = {
    "float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52,
    "complex64": 2**-23, "complex128": 2**-52,
}  # fmt: skip


def vectorized(
    upstream: DataPlan, function: Callable[..., Any], batch: Batch, rounding: bool
) -> tuple[Callable[..., Any], str] | str:
    """The function for whole batches and how it came about in words, or why there is none.

    The function as it is goes first, since broadcasting costs nothing; then tf.vectorized_map.
    Either is taken if it makes of two batches and a partial one what the function makes of their
    examples. The sample is the first examples, and a second time the same with every one scaled by
    another factor: what depends on the other examples of a batch (its mean or maximum) shows there.

    :param upstream: yields the examples, without shuffling them.
    :param batch: the stage that puts them into batches.
    :param rounding: whether floating-point elements may differ by rounding.
    """
    size = min(SAMPLE_BATCH, batch.size)
    spec = element_spec(upstream)
    examples = _sample(upstream, spec, 2 * size + size // 2)
    if not examples:
        return "has no example to be tried on"
    reasons = []
    for how, candidate in (
        ("as it is", function),
        ("by tf.vectorized_map", _by_vectorized_map(function)),
    ):
        try:
            with _quiet():
                shaped = _with_shapes_of(function, candidate, spec, batch)
                for sample in (examples, _scaled(examples)):
                    _compare(function, shaped, spec, sample, size, rounding)
        except _Differs as difference:
            reasons.append(f"{difference} {how}")
        except Exception as error:  # whatever the function's author, or TensorFlow, raises
            reasons.append(f"fails {how} ({cause_of(error)})")
        else:
            return shaped, how
    return "; ".join(reasons)


class _Differs(Exception):
    """The vectorized function makes something else; the text says what."""


def _by_vectorized_map(function: Callable[..., Any]) -> Callable[..., Any]:
    def whole(*batch: Any) -> Any:
        # a tf.function, so that Python control flow on tensors is converted as tf.data does it
        one = tf.function(function)
        return tf.vectorized_map(lambda example: one(*example), batch, fallback_to_while_loop=False)

    return whole


def _with_shapes_of(
    function: Callable[..., Any], candidate: Callable[..., Any], spec: Any, batch: Any
) -> Callable[..., Any]:
    """The candidate, whose batches have the static shapes of batched examples.

    :raises _Differs: if its structure or types are others.
    """
    dataset = _as_dataset_of(spec)
    batches = dataset.batch(batch.size, drop_remainder=batch.drop_remainder)
    wanted = dataset.map(function).batch(batch.size, drop_remainder=batch.drop_remainder)
    wanted_spec = wanted.element_spec

    def shaped(*elements: Any) -> Any:
        made = candidate(*elements)
        if isinstance(made, list):  # tf.data makes tuples of lists
            made = tuple(made)
        tf.nest.assert_same_structure(wanted_spec, made)
        # the batches of the sample are smaller than those of the training
        length = tf.nest.flatten(elements)[0].shape[0]
        return tf.nest.map_structure(
            lambda tensor, one: tf.ensure_shape(tensor, [length, *one.shape[1:]]),
            made,
            wanted_spec,
        )

    shaped.__qualname__ = getattr(function, "__qualname__", type(function).__name__)
    made_spec = batches.map(shaped).element_spec
    for made, one in zip(tf.nest.flatten(made_spec), tf.nest.flatten(wanted_spec), strict=True):
        if made.dtype != one.dtype:
            raise _Differs(f"makes {made.dtype.name} instead of {one.dtype.name}")
    return shaped


def _compare(
    function: Callable[..., Any],
    shaped: Callable[..., Any],
    spec: Any,
    examples: list[list[Any]],
    size: int,
    rounding: bool,
) -> None:
    """:raises _Differs: where the function makes something else of batches than of examples."""
    dataset = _as_dataset_of(spec, examples)
    wanted = dataset.map(function).batch(size)
    for ours, theirs in zip(dataset.batch(size).map(shaped), wanted, strict=True):
        for made, one in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
            if made.shape != one.shape:
                raise _Differs(f"makes shape {made.shape} instead of {one.shape}")
            if not _equal(made.numpy(), one.numpy(), rounding):
                raise _Differs("makes other elements")


def _equal(made: Any, one: Any, rounding: bool) -> bool:
    step = _STEPS.get(one.dtype.name)
    if step is None or not rounding:
        return made.tobytes() == one.tobytes() if step else bool(np.array_equal(made, one))
    wide = "complex128" if one.dtype.kind == "c" else "float64"
    made, one = made.astype(wide), one.astype(wide)
    largest = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    tolerance = _ROUNDING_STEPS * step
    return bool(np.allclose(made, one, rtol=tolerance, atol=tolerance * largest, equal_nan=True))


def _as_dataset_of(spec: Any, examples: list[list[Any]] | None = None) -> Any:
    """A data set of these examples, each a list of its leaves, with shapes as in `spec`."""

    def read() -> Iterator[Any]:
        for leaves in examples or ():
            yield tf.nest.pack_sequence_as(spec, leaves)

    return tf.data.Dataset.from_generator(read, output_signature=spec)


def _sample(upstream: DataPlan, spec: Any, count: int) -> list[list[Any]]:
    """The first examples, each as its leaves; made up ones of their shapes where a source or stage
    may yield others each time.

    Reading from those would move the state that they draw from, and so the training.
    """
    if upstream.source.deterministic and not unsteady_stage(upstream):
        taken = upstream.append(Take(count=count))
        return [tf.nest.flatten(example) for example in lower_plan(taken)]
    leaves = tf.nest.flatten(spec)
    drawn = np.random.default_rng(0)
    if not all(
        isinstance(leaf, tf.TensorSpec)
        and leaf.shape.is_fully_defined()
        and leaf.dtype != tf.string
        for leaf in leaves
    ):
        return []
    return [
        [tf.cast(drawn.uniform(0, 2, leaf.shape), leaf.dtype) for leaf in leaves]
        for _ in range(count)
    ]


def _scaled(examples: list[list[Any]]) -> list[list[Any]]:
    """The same examples, the numbers of the k-th of n multiplied by k / n; types stay."""

    def scaled(leaf: Any, share: float) -> Any:
        if not _is_number(leaf):
            return leaf
        return tf.cast(tf.cast(leaf, tf.float64) * share, leaf.dtype)

    count = len(examples)
    return [
        [scaled(leaf, (number + 1) / count) for leaf in leaves]
        for number, leaves in enumerate(examples)
    ]


def _is_number(leaf: Any) -> bool:
    dense = isinstance(leaf, tf.Tensor | tf.TensorSpec)
    return dense and (leaf.dtype.is_integer or leaf.dtype.is_floating)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without TensorFlow's warnings of what cannot be vectorized: it is said in the reason."""
    logger = logging.getLogger("tensorflow")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def cause_of(error: Exception) -> str:
    """Return the line of a message that says why; autograph puts places in the code before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    line = lines[-1] if lines[0] == "in user code:" else f"{type(error).__name__}: {lines[0]}"
    return line if len(line) <= 120 else f"{line[:117]}..."
