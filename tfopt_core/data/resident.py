"""A stage that holds a data set as tensors in the device's memory, on a GPU as `DeviceRows`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import attrs

from tfopt_core.data.batching import Batch
from tfopt_core.data.dissect.walk import known_cardinality
from tfopt_core.data.functions import MapBatches
from tfopt_core.data.stage import SameElements, Stage
from tfopt_core.data.stages import Shuffle
from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import tf

# The attribute of a data set without inputs that holds the data set it was computed from.
COMPUTED_FROM = "computed_from"
WORD_BYTES = 4


@attrs.define(eq=False)
class Held:
    """What a `Resident` stage holds once it was lowered.

    :param tensors: all elements as the pipeline made them, whose leaves share their first axis.
    :param rows: the same as `DeviceRows`. On a CPU they share the memory of the tensors.
    :param count: the number of elements.
    :param on_gpu: whether a GPU holds the rows.
    """

    tensors: Any = None
    rows: Any = None
    count: int | None = None
    on_gpu: bool = False


@attrs.frozen(kw_only=True, eq=False)
class Resident(SameElements, kind="resident"):
    """Computes all elements so far once, and keeps them as tensors in the device's memory.

    Lowering fills `held`; a resident loop gathers its batches from there, and any other loop
    reads them as a data set of slices. `device` None leaves them where TensorFlow puts them.
    """

    device: str | None = None
    held: Held = attrs.field(factory=Held, repr=False)

    @property
    def tensors(self) -> Any:
        return self.held.tensors

    def emptied(self) -> Resident:
        return attrs.evolve(self, held=Held())

    def lower(self, dataset: Any) -> Any:
        """Compute every element of `dataset` once, keep them in `held`, and read them from there.

        Further calls use the elements that it holds.

        :returns: a `tf.data.Dataset` of slices of the held tensors.
        :raises WorkloadError: if the number of elements is unknown or 0, or they differ in shape.
        """
        if self.held.tensors is None:
            self.held.tensors, self.held.count = _everything(dataset)
            self.held.on_gpu = on_gpu = _is_gpu(self.device)
            with nullcontext() if self.device is None else tf.device(self.device):
                self.held.rows = tf.nest.map_structure(
                    lambda tensor: DeviceRows(tensor, on_gpu=on_gpu), self.held.tensors
                )
        slices = tf.data.Dataset.from_tensor_slices(self.held.tensors)
        setattr(slices, COMPUTED_FROM, dataset)
        return slices

    def describe(self) -> str:
        return f"resident: in the memory of {self.device or 'the device'}"


def why_not_gathered(behind: Sequence[Stage]) -> str:
    """Return why these stages do not allow a loop to gather batches; "" if they do.

    A loop that gathers its batches runs no pipeline, so neutral stages may stand anywhere.
    """
    batched = False
    for stage in behind:
        if stage.neutral:
            continue
        fits = isinstance(stage, MapBatches) if batched else isinstance(stage, Shuffle)
        if type(stage) is Batch and not batched:
            batched = fits = True
        if not fits:
            return f'"{stage.describe()}" stands behind the data that are held'
    return "" if batched else "the data are not put into batches behind what is held"


def _everything(dataset: Any) -> tuple[Any, int]:
    """Return all elements as one batch, and their number."""
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
        specs = tf.nest.flatten(dataset.element_spec)
        if all(spec.shape.is_fully_defined() for spec in specs):
            raise  # an error of the data themselves
        raise WorkloadError("only examples of one shape can be held on the device") from error


def _is_gpu(device: str | None) -> bool:
    """Return whether a device is a GPU; None is the one that TensorFlow takes by itself."""
    if device is None:
        return bool(tf.config.list_logical_devices("GPU"))
    return "gpu" in device.lower()


# no class of attrs, which `tf.nest` would take for a structure
class DeviceRows:
    """A tensor whose rows are gathered, held where TensorFlow places what is computed now.

    :param on_gpu: whether that is a GPU.
    """

    def __init__(self, tensor: Any, *, on_gpu: bool) -> None:
        self.form = RowForm(tensor.dtype, tensor.shape[1:], in_words=_in_words(tensor, on_gpu))
        self.held = tf.identity(_words_of(tensor) if self.form.in_words else tensor)


class RowForm:
    """How the rows that a `DeviceRows` holds are gathered, whatever they are."""

    def __init__(self, dtype: Any, shape: Any, *, in_words: bool) -> None:
        self.dtype, self.shape, self.in_words = dtype, tuple(map(int, shape)), in_words

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}{self.in_words}"

    def gather(self, held: Any, rows: Any) -> Any:
        """Return the rows at these indices."""
        found = tf.gather(held, rows)
        if not self.in_words:
            return found
        count, size, shape = tf.shape(rows)[0], self.dtype.size, self.shape
        flat = tf.reshape(tf.bitcast(found, tf.uint8), [count, -1])
        width = size * math.prod(shape)
        flat = flat[:, :width] if width % WORD_BYTES else flat
        flat = tf.reshape(flat, [count, *shape, size] if size > 1 else [count, *shape])
        return tf.ensure_shape(tf.bitcast(flat, self.dtype), [rows.shape[0], *shape])


def _in_words(tensor: Any, on_gpu: bool) -> bool:
    small = tensor.dtype.is_integer and tensor.dtype != tf.int64
    return on_gpu and small and 0 not in tensor.shape


def _words_of(tensor: Any) -> Any:
    """Return the bytes of each row as float32, padded to whole words."""
    count = int(tensor.shape[0])
    flat = tf.reshape(tf.bitcast(tensor, tf.uint8), [count, -1])
    flat = tf.pad(flat, [[0, 0], [0, -int(flat.shape[1]) % WORD_BYTES]])
    return tf.bitcast(tf.reshape(flat, [count, -1, WORD_BYTES]), tf.float32)
