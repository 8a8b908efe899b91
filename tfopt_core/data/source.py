"""The first stage of a pipeline: where its elements come from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import attrs

from tfopt_core.data.stage import Count, Stage
from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import tf

# Where elements come from. The value of "arrays" is a structure whose leaves share their first
# axis, of "tensors" a single element, of "range" (start, stop, step), of "zip" and "concatenate"
# a tuple of plans, of "dataset" an opaque `tf.data.Dataset`.
Origin = Literal[
    "arrays", "tensors", "range", "dataset", "generator", "pydataset", "zip", "concatenate"
]
# The most parts of a source that are described; the others are counted.
_DESCRIBED_PARTS = 4
# How many examples of a generator are read to learn their shapes.
SAMPLES = 8


@attrs.frozen(kw_only=True, eq=False)
class Source(Stage, kind="source", order="kept", chooses=False, stops_early=False):
    """Where examples come from. `count` is the number of elements, None where unknown.

    `batched` sources yield batches; `random_access` ones hold all examples, so shuffling
    them costs nothing but the references. `signature` is the `tf.TypeSpec` structure of an
    element, if the value does not determine it. `redrawn` says of a PyDataset whether Keras draws
    the order of its batches anew each epoch. A data set that is `read_once` continues where it was
    left, such as one of a running generator. The `layout` of a "zip" is the structure of an
    element with indices of parts as its leaves; None is a flat tuple.
    """

    deterministic: bool | None = True
    value: Any
    origin: Origin
    count: int | None = None
    batched: bool = False
    signature: Any = None
    layout: Any = None
    redrawn: bool = False
    read_once: bool = False

    @property
    def random_access(self) -> bool:
        """Whether the elements can be shuffled before anything is computed from them."""
        return self.origin in ("arrays", "range")

    @property
    def tensors(self) -> Any:
        return self.value if self.origin == "arrays" else None

    @property
    def parts(self) -> tuple[Any, ...]:
        """The `DataPlan`s of a "zip" or "concatenate" source, () for others."""
        return self.value if self.origin in ("zip", "concatenate") else ()

    @property
    def fills(self) -> bool:
        return any(part.fills for part in self.parts)

    def lower(self, *parts: Any) -> Any:
        """Return the elements as a `tf.data.Dataset`.

        :param parts: the data sets of `parts`.
        :raises WorkloadError: if a generator without a signature yields nothing.
        """
        match self.origin:
            case "dataset":
                return self.value
            case "arrays":
                return tf.data.Dataset.from_tensor_slices(self.value)
            case "tensors":
                return tf.data.Dataset.from_tensors(self.value)
            case "range":
                kind = {} if self.signature is None else {"output_type": self.signature.dtype}
                return tf.data.Dataset.range(*self.value, **kind)
            case "generator":
                return _of_generator(self.value, self.signature)
            case "pydataset":
                return _of_pydataset(self.value)
            case "concatenate":
                return functools.reduce(lambda first, second: first.concatenate(second), parts)
            case "zip" if self.layout is None:
                return tf.data.Dataset.zip(parts)
        return tf.data.Dataset.zip(_laid_out(self.layout, parts))

    def count_after(self, before: Count) -> Count:
        return Count(self.count, self.count, batched=self.batched)

    def describe(self) -> str:
        unit = "batches" if self.batched else "examples"
        size = f"{self.count:,} {unit}" if self.count is not None else f"unknown number of {unit}"
        if self.parts:
            shown = [", ".join(_in_short(part)) for part in self.parts[:_DESCRIBED_PARTS]]
            if len(self.parts) > _DESCRIBED_PARTS:
                shown.append(f"and {len(self.parts) - _DESCRIBED_PARTS} more")
            inner = "; ".join(shown)
            return f"source: {self.origin} of [{inner}], {size}"
        return f"source: {self.origin}, {size}"


def _in_short(part: Any) -> list[str]:
    """Return what a part does, without the parts that it has itself."""
    source, stages = part.source, list(part.describe())
    if source.parts:
        stages[0] = f"source: {source.origin} of {len(source.parts)} data sets"
    return stages


def _laid_out(layout: Any, parts: Sequence[Any]) -> Any:
    """Return the structure of indices with the part that each of them names."""
    if isinstance(layout, dict):
        return {key: _laid_out(item, parts) for key, item in layout.items()}
    if isinstance(layout, tuple):
        items = (_laid_out(item, parts) for item in layout)
        return type(layout)(*items) if hasattr(layout, "_fields") else tuple(items)
    return parts[layout]


def _of_generator(generator: Callable[[], Iterator[Any]], signature: Any) -> Any:
    """Return a data set of a generator's examples.

    :param signature: the spec of an example; None to read it from the first ones.
    :raises WorkloadError: if it is None and the generator yields nothing.
    """
    if signature is None:
        signature = _signature(generator())
    return tf.data.Dataset.from_generator(generator, output_signature=signature)


def _of_pydataset(pydataset: Any) -> Any:
    """Return a data set of a PyDataset's batches."""

    def batches() -> Any:
        for index in range(pydataset.num_batches):
            yield pydataset[index]
        pydataset.on_epoch_end()

    first = pydataset[0]
    # batches differ in length: the last one is often smaller
    signature = tf.nest.map_structure(
        lambda a: tf.TensorSpec((None, *tf.convert_to_tensor(a).shape[1:]), _dtype(a)), first
    )
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(pydataset.num_batches))


def _signature(iterator: Any) -> Any:
    samples = [example for example, _ in zip(iterator, range(SAMPLES), strict=False)]
    if not samples:
        raise WorkloadError("the generator yields nothing")

    def spec(*values: Any) -> Any:
        shapes = [tf.TensorShape(tf.convert_to_tensor(value).shape) for value in values]
        common = shapes[0]
        for shape in shapes[1:]:
            common = common.most_specific_compatible_shape(shape)
        return tf.TensorSpec(common, _dtype(values[0]))

    return tf.nest.map_structure(spec, *samples)


def _dtype(value: Any) -> Any:
    return tf.convert_to_tensor(value).dtype
