"""Read the training data of a replay: digests of two epochs, and the first batches themselves."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import attrs

from tfopt_core.lazy import np, tf
from tfopt_core.training.messages import Answer, TrainingCounts

# A cache that froze random data shows only in a second epoch.
EPOCHS = 2
# Reading an epoch ends after so long; the other side has more time for the same data.
EPOCH_SECONDS = 10.0
PATIENCE = 6.0
KEPT_BYTES = 512 * 2**20
DIGEST_BYTES = 16
# The digests of this many batches are kept one by one, to tell the first that differs.
FIRST_BATCHES = 100
# What of a training is replayed: the training as it is measured; one on the first batches of the
# side without plugins, with the data of both compared; or these data alone.
ReplayPart = Literal["training", "fixed batches", "data"]


@attrs.frozen(kw_only=True)
class ReadEpoch:
    """One epoch of training data, as digests.

    :param examples: how many there were, `batches` likewise.
    :param multiset: of all examples, whatever their order.
    :param order: of all batches in order, their sizes too.
    :param first: of each of the first batches, in order.
    :param whole: whether the epoch was read to its end; if not, the rest holds for what was read.
    """

    examples: int
    batches: int
    multiset: str
    order: str
    first: tuple[str, ...]
    whole: bool


@attrs.frozen(kw_only=True)
class Replayed(Answer):
    """One side's short training.

    :param steps: how many steps were replayed.
    :param history: the metrics at the ends of its epochs, by name.
    :param counts: what was done.
    :param weight_difference: of the final state to the other side's, see `training.replay.state`;
        None on the first side.
    :param initial_difference: of the variables that the model would begin with, likewise.
    :param own_difference: of this side's final state to that of the same training repeated; None if
        there was no difference to explain.
    :param unsteady: the metrics that were others when the training was repeated.
    :param epochs: the training data of the first epochs, where they were compared; empty for a
        stack that leaves a PyDataset to Keras.
    :param reproducible: whether the data, built anew under the same seed, were the same again;
        None if not checked.
    :param cut_to: to how many batches an epoch was cut down; None if it was not.
    :param left_out: the parts of a training that are not replayed, in words.
    """

    steps: int
    history: Mapping[str, tuple[float, ...]]
    counts: TrainingCounts = TrainingCounts()
    weight_difference: float | None = None
    initial_difference: float | None = None
    own_difference: float | None = None
    unsteady: tuple[str, ...] = ()
    epochs: tuple[ReadEpoch, ...] = ()
    reproducible: bool | None = None
    cut_to: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def unread(self) -> str | None:
        """Why the data could not be compared whole; None if they can."""
        whole = not self.epochs or self.epochs[-1].whole
        return None if whole else "the data are too large to compare whole"


def read_epochs(
    dataset: Any,
    seconds: float = EPOCH_SECONDS,
    keep: Callable[[Any], None] = lambda batch: None,
    now: Callable[[], float] = monotonic,
) -> tuple[ReadEpoch, ...]:
    """Read two epochs, each within `seconds`. Return their digests; of a longer epoch a part.

    A PyDataset's batches are read in their own order, which Keras may draw anew.

    :param keep: called with each batch of the first epoch.
    """
    epochs: list[ReadEpoch] = []
    while len(epochs) < EPOCHS and (not epochs or epochs[-1].whole):
        first = keep if not epochs else lambda batch: None
        epochs.append(read_epoch(dataset, keep=first, until=now() + seconds, now=now))
    return tuple(epochs)


class FirstBatches:
    """The first batches, as many as fit into the limit, and one at least."""

    def __init__(self) -> None:
        self._batches: list[Any] = []
        self._bytes = 0

    def __call__(self, batch: Any) -> None:
        if len(self._batches) < FIRST_BATCHES and self._bytes < KEPT_BYTES:
            self._batches.append(batch)
            self._bytes += _size(batch)

    def save(self, path: Path, spec: Any) -> None:
        """Store the batches, which have this specification, as a data set of known length."""
        stored = tf.data.Dataset.from_generator(lambda: iter(self._batches), output_signature=spec)
        count = tf.data.experimental.assert_cardinality(len(self._batches))
        stored.apply(count).save(str(path))


def _size(batch: Any) -> int:
    total = 0
    for part in tf.nest.flatten(batch, expand_composites=True):
        if part is not None:
            array = np.asarray(part.numpy())
            texts = array.dtype.hasobject
            total += sum(len(text) for text in np.ravel(array)) if texts else array.nbytes
    return total


def read_epoch(
    dataset: Iterable[Any],
    *,
    keep: Callable[[Any], None] = lambda batch: None,
    until: float = math.inf,
    now: Callable[[], float] = monotonic,
    most_batches: int | None = None,
) -> ReadEpoch:
    """Read a data set of batches once and return its digests.

    The digest of the multiset is the sum of the examples' digests modulo 2^128: a lost, repeated
    or changed example changes it, another order does not.

    :param keep: called with each batch.
    :param until: when reading ends, in seconds of `now`, which is called after each batch.
    :param most_batches: the most batches to read, None for all.
    """
    examples = batches = multiset = 0
    order, first, whole = hashlib.blake2b(digest_size=DIGEST_BYTES), [], True
    for batch in dataset:
        digests = example_digests(batch)
        examples, batches = examples + len(digests), batches + 1
        multiset += sum(int.from_bytes(digest) for digest in digests)
        digest = hashlib.blake2b(b"".join(digests), digest_size=DIGEST_BYTES)
        order.update(digest.digest())
        if batches <= FIRST_BATCHES:
            first.append(digest.hexdigest())
        keep(batch)
        if now() > until or batches == most_batches:
            whole = False
            break
    return ReadEpoch(
        examples=examples,
        batches=batches,
        multiset=f"{multiset % 2 ** (8 * DIGEST_BYTES):032x}",
        order=order.hexdigest(),
        first=tuple(first),
        whole=whole,
    )


def example_digests(batch: Any) -> list[bytes]:
    """Return a digest of each example of a batch: of its leaves, their types, shapes and names.

    A batch whose leaves do not share their first axis counts as a single example.
    """
    # the names of a dict's keys; tf.nest sorts them, as Keras does
    names = tf.nest.map_structure(lambda leaf: type(leaf).__name__, batch)
    leaves = [_leaf(tensor) for tensor in tf.nest.flatten(batch) if tensor is not None]
    kinds, parts = [kind for kind, _ in leaves], [examples for _, examples in leaves]
    rows: Iterable[Sequence[bytes]]
    if all(isinstance(part, list) for part in parts) and len(set(map(len, parts))) == 1:
        rows = zip(*parts, strict=True)
    else:
        rows = [[b"".join(map(_with_length, part)) for part in parts]]
    start = hashlib.blake2b(f"{names} {kinds}".encode(), digest_size=DIGEST_BYTES)
    digests = []
    for row in rows:
        digest = start.copy()
        digest.update(b"".join(row))
        digests.append(digest.digest())
    return digests


def _leaf(tensor: Any) -> tuple[str, Sequence[bytes]]:
    """Return the type of a tensor with the shape of an example, and the bytes of each example in a
    list; in a tuple those of a tensor without axes."""
    if isinstance(tensor, tf.RaggedTensor):
        values = tensor.flat_values
        kind = f"ragged {tensor.ragged_rank} {values.dtype.name} {values.shape[1:]}"
        return kind, [repr(row).encode() for row in tensor.to_list()]
    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.sparse.reorder(tensor)
        indices, shape = tensor.indices.numpy(), tensor.dense_shape.numpy()
        places, values = indices[:, 1:].tolist(), tensor.values.numpy().tolist()
        borders = np.searchsorted(indices[:, 0], np.arange(shape[0] + 1))
        return f"sparse {shape[1:].tolist()} {tensor.dtype.name}", [
            repr((places[low:high], values[low:high])).encode() for low, high in pairwise(borders)
        ]
    array = np.asarray(tf.convert_to_tensor(tensor).numpy())
    kind = f"{array.dtype} {array.shape[1:]}"
    count = len(array) if array.ndim else 1
    rows = array.reshape(count, array.size // max(1, count))
    if array.dtype == object:
        examples = [b"".join(map(_with_length, row)) for row in rows]
    else:
        examples = [row.tobytes() for row in rows]
    return kind, examples if array.ndim else tuple(examples)


def _with_length(data: bytes) -> bytes:
    """Return the bytes after their length, so that joined bytes stay unambiguous."""
    return len(data).to_bytes(8) + bytes(data)
