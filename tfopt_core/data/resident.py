"""A data set held as tensors in the device's memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tfopt_core.data.dissect import known_cardinality
from tfopt_core.data.stages import Resident
from tfopt_core.errors import WorkloadError


def lowered_resident(dataset: Any, stage: Resident) -> Any:
    """Compute every element of `dataset` once, keep them in `stage.held`, and read them from there.

    :returns: a `tf.data.Dataset` of slices of what is held.
    :raises WorkloadError: if the number of elements is unknown or 0, or they differ in shape.
    """
    import tensorflow as tf

    if stage.held.tensors is None:
        count = known_cardinality(dataset)
        if not count:
            raise WorkloadError(
                "only data whose number of examples is known can be held on the device"
            )
        try:
            everything = dataset.batch(count, drop_remainder=True).get_single_element()
        except tf.errors.InvalidArgumentError as error:
            raise WorkloadError("only examples of one shape can be held on the device") from error
        with _on(stage.device):
            stage.held.tensors = tf.nest.map_structure(tf.identity, everything)
        stage.held.count = count
    return tf.data.Dataset.from_tensor_slices(stage.held.tensors)


def _on(device: str | None) -> AbstractContextManager[Any]:
    import tensorflow as tf

    return nullcontext() if device is None else tf.device(device)
