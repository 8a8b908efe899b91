"""Make a `tf.data.Dataset` of a generator or a PyDataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tfopt_core.errors import WorkloadError

# How many examples of a generator are read to learn their shapes.
SAMPLES = 8


def from_generator(generator: Callable[[], Iterator[Any]], signature: Any) -> Any:
    """Return a data set of a generator's examples.

    :param signature: the spec of an example; None to read it from the first ones.
    :raises WorkloadError: if it is None and the generator yields nothing.
    """
    import tensorflow as tf

    if signature is None:
        signature = _signature(generator())
    return tf.data.Dataset.from_generator(generator, output_signature=signature)


def from_pydataset(pydataset: Any) -> Any:
    """Return a data set of a PyDataset's batches."""
    import tensorflow as tf

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
    import tensorflow as tf

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
    import tensorflow as tf

    return tf.convert_to_tensor(value).dtype
