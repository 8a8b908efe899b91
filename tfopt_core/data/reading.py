"""Read a source, other than one of several parts, as a `tf.data.Dataset`."""

from __future__ import annotations

from typing import Any

from tfopt_core.data.stages import Source
from tfopt_core.errors import WorkloadError

# How many examples of a generator are read to learn their shapes.
SAMPLES = 8


def read(source: Source) -> Any:
    """Return a data set of the source's elements.

    :raises WorkloadError: if a generator without a signature yields nothing.
    """
    import tensorflow as tf

    match source.origin:
        case "dataset":
            return source.value
        case "arrays":
            return tf.data.Dataset.from_tensor_slices(source.value)
        case "tensors":
            return tf.data.Dataset.from_tensors(source.value)
        case "range":
            kind = {} if source.signature is None else {"output_type": source.signature.dtype}
            return tf.data.Dataset.range(*source.value, **kind)
        case "generator":
            signature = source.signature
            if signature is None:
                signature = _signature(source.value())
            return tf.data.Dataset.from_generator(source.value, output_signature=signature)
        case "pydataset":
            return _from_pydataset(source.value)
    raise TypeError(f"a {source.origin} is no source of one piece")


def _from_pydataset(pydataset: Any) -> Any:
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
