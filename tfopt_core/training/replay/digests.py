"""Digest batches and their examples, to compare data by their contents."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from tfopt_core.records.replay import ReadEpoch

DIGEST_BYTES = 16
# The digests of this many batches are kept one by one, to tell the first that differs.
FIRST_BATCHES = 100


def read_epoch(
    dataset: Iterable[Any],
    *,
    keep: Callable[[Any], None] = lambda batch: None,
    out_of_time: Callable[[], bool] = lambda: False,
    most_batches: int | None = None,
) -> ReadEpoch:
    """Read a data set of batches once and return its digests.

    The digest of the multiset is the sum of the examples' digests modulo 2^128: a lost, repeated
    or changed example changes it, another order does not.

    :param keep: called with each batch.
    :param out_of_time: called after each batch; reading ends once it returns true.
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
        if out_of_time() or batches == most_batches:
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
    import tensorflow as tf

    # the names of a dict's keys; tf.nest sorts them, as Keras does
    names = tf.nest.map_structure(lambda leaf: type(leaf).__name__, batch)
    leaves = [_leaf(tensor) for tensor in tf.nest.flatten(batch) if tensor is not None]
    lengths = {leaf.length for leaf in leaves}
    common = lengths.pop() if len(lengths) == 1 else None
    indices = [None] if common is None else range(common)
    start = hashlib.blake2b(
        f"{names} {[leaf.kind for leaf in leaves]}".encode(), digest_size=DIGEST_BYTES
    )
    digests = []
    for index in indices:
        digest = start.copy()
        for leaf in leaves:
            digest.update(leaf.bytes_of(index))
        digests.append(digest.digest())
    return digests


@attrs.frozen
class _Leaf:
    """One tensor of a batch.

    :param length: how many examples it holds, None for a single value.
    :param kind: its type and the shape of an example.
    :param bytes_of: the bytes of one example; of all of them for None.
    """

    length: int | None
    kind: str
    bytes_of: Callable[[int | None], bytes]


def _leaf(tensor: Any) -> _Leaf:
    import tensorflow as tf

    if isinstance(tensor, tf.RaggedTensor):
        return _ragged(tensor)
    if isinstance(tensor, tf.SparseTensor):
        return _sparse(tensor)
    return _dense(tf.convert_to_tensor(tensor).numpy())


def _dense(array: Any) -> _Leaf:
    import numpy as np

    array = np.asarray(array)
    kind = f"{array.dtype} {array.shape[1:]}"

    def of(index: int | None) -> bytes:
        part = array if index is None else array[index]
        if array.dtype == object:
            return b"".join(_with_length(text) for text in np.ravel(part))
        return bytes(np.asarray(part).tobytes())

    return _Leaf(len(array) if array.ndim else None, kind, of)


def _ragged(tensor: Any) -> _Leaf:
    splits = [row.numpy() for row in tensor.nested_row_splits]
    values = tensor.flat_values.numpy()
    inner = _dense(values)

    def of(index: int | None) -> bytes:
        low, high = (0, len(splits[0]) - 1) if index is None else (index, index + 1)
        parts = []
        for row in splits:
            held = row[low : high + 1]
            parts.append(_with_length((held - held[0]).tobytes()))
            low, high = int(held[0]), int(held[-1])
        return b"".join([*parts, *(inner.bytes_of(i) for i in range(low, high))])

    return _Leaf(len(splits[0]) - 1, f"ragged {len(splits)} {inner.kind}", of)


def _sparse(tensor: Any) -> _Leaf:
    import numpy as np
    import tensorflow as tf

    tensor = tf.sparse.reorder(tensor)
    indices, shape = tensor.indices.numpy(), tensor.dense_shape.numpy()
    inner = _dense(tensor.values.numpy())

    def of(index: int | None) -> bytes:
        low, high = 0, len(indices)
        if index is not None:
            low, high = np.searchsorted(indices[:, 0], [index, index + 1])
        start = 0 if index is None else 1
        places = _with_length(indices[low:high, start:].tobytes())
        return places + b"".join(inner.bytes_of(i) for i in range(low, high))

    return _Leaf(int(shape[0]), f"sparse {shape[1:].tolist()} {inner.kind}", of)


def _with_length(data: bytes) -> bytes:
    """Return the bytes after their length, so that joined bytes stay unambiguous."""
    return len(data).to_bytes(8) + bytes(data)
