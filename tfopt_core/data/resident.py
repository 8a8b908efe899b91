"""Hold a data set as tensors in the device's memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tfopt_core.data.dissect import known_cardinality
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    MapBatches,
    Options,
    Prefetch,
    Resident,
    Shuffle,
    Stage,
)
from tfopt_core.errors import WorkloadError

# Stages that only set how a pipeline runs; a loop that gathers its batches runs no pipeline.
NEUTRAL = (Prefetch, Options, Autotune)
# The attribute for the data set from which a held one was computed.
COMPUTED_FROM = "computed_from"


def lowered_resident(dataset: Any, stage: Resident) -> Any:
    """Compute every element of `dataset` once, keep them in `stage.held`, and read them from there.

    A stage that already holds its elements computes nothing.

    :returns: a `tf.data.Dataset` of slices of the held elements.
    :raises WorkloadError: if the number of elements is unknown or 0, or they differ in shape.
    """
    import tensorflow as tf

    if stage.held.tensors is None:
        everything, stage.held.count = _everything(dataset)
        with _on(stage.device):
            stage.held.tensors = tf.nest.map_structure(tf.identity, everything)
    slices = tf.data.Dataset.from_tensor_slices(stage.held.tensors)
    setattr(slices, COMPUTED_FROM, dataset)
    return slices


def why_not_gathered(behind: Sequence[Stage]) -> str:
    """Return why batches of the held elements cannot be gathered; empty if they can."""
    batched = False
    for stage in behind:
        if isinstance(stage, NEUTRAL):
            continue
        fits = isinstance(stage, MapBatches) if batched else isinstance(stage, Shuffle)
        if type(stage) is Batch and not batched:
            batched = fits = True
        if not fits:
            return f'"{stage.describe()}" stands behind the data that are held'
    return "" if batched else "the data are not put into batches behind what is held"


def _everything(dataset: Any) -> tuple[Any, int]:
    """Return all elements as one batch, and their number."""
    import tensorflow as tf

    for spec in tf.nest.flatten(dataset.element_spec):
        if not isinstance(spec, tf.TensorSpec):
            raise WorkloadError(
                f"only tensors can be held on the device, not a {spec.value_type.__name__}"
            )
    count = known_cardinality(dataset)
    if not count:
        raise WorkloadError("only data whose number of examples is known can be held on the device")
    try:
        return dataset.batch(count, drop_remainder=True).get_single_element(), count
    except tf.errors.InvalidArgumentError as error:
        if _shapes_are_known(dataset.element_spec):
            raise  # the error comes from the data themselves
        raise WorkloadError("only examples of one shape can be held on the device") from error


def _shapes_are_known(element_spec: Any) -> bool:
    import tensorflow as tf

    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(element_spec))


def _on(device: str | None) -> AbstractContextManager[Any]:
    import tensorflow as tf

    return nullcontext() if device is None else tf.device(device)
