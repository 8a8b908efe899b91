"""Epochs of what Python yields, compared: whether they hold the same, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from time import monotonic
from typing import Any, Literal
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data import has_stage
from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import example_digests, np
from tfopt_data.kept_rows import KeptRows, in_memory
from tfopt_data.python_source import PythonSource, Rows

# What a later epoch is, compared with the one before: the same; the same batches, or the same
# examples, in another order.
Order = Literal["kept", "batches", "examples"]

# Epochs behind the second one are read for so long, and the one that is being read then to its end.
MORE_SECONDS = 1.0
# Elements of so many bytes have their digests made at once.
TOGETHER_BYTES = 2**20
_FIRST_EPOCHS: WeakKeyDictionary[Any, KeptRows] = WeakKeyDictionary()


def compared_epochs(python: PythonSource, count: int = 2) -> tuple[Order, Epoch]:
    """Read two epochs of a source and compare them, example by example; then as many of the
    training's as can be read in `MORE_SECONDS`.

    Return how the second is ordered, and the first.

    :param count: the epochs of the training.
    :raises PluginRefused: if they do not hold the same examples, or hold what cannot be kept.
    """
    epochs = python.epochs()
    first = _kept(python, next(epochs)) if python.goes_on else _read(Rows(python, next(epochs)))
    second = _read(Rows(python, next(epochs)))
    order = order_of(python, first, second, 2)
    later, end = 2, monotonic() + MORE_SECONDS
    while later < count and not python.goes_on and monotonic() < end:
        later += 1
        order_of(python, first, _read(Rows(python, next(epochs))), later)
    return order, first


def order_of(python: PythonSource, first: Epoch, later: Epoch, number: int) -> Order:
    """Return how a later epoch is ordered, compared with the first.

    :param number: of the later epoch, from 1.
    :raises PluginRefused: if it does not hold the same examples.
    """
    if first.elements == later.elements:
        return "kept"
    if sorted(first.elements) == sorted(later.elements):
        return "batches" if python.source.batched else "examples"
    if sorted(first.examples) == sorted(later.examples):
        return "examples"
    new = (Counter(later.examples) - Counter(first.examples)).total()
    raise PluginRefused(
        f"{python.name} yields other examples in each epoch: {new:,} of the "
        f"{len(later.examples):,} in epoch {number} are not among the {len(first.examples):,} of "
        "the first; materialize would repeat the first epoch, so leave it out of the stack"
    )


def rows_of_first_epoch(python: PythonSource) -> KeptRows | None:
    """Return the first epoch of a source that goes on, where this process has read it already.

    It cannot be read again, and a training may be built more than once.
    """
    return _FIRST_EPOCHS.get(python.source.value) if python.goes_on else None


def remember_first_epoch(python: PythonSource, kept: KeptRows) -> None:
    """Keep the first epoch of a source that goes on, as long as the source is in use."""
    if python.goes_on:
        _FIRST_EPOCHS[python.source.value] = kept


@attrs.frozen
class Epoch:
    """An epoch that was read: the digests of its elements and examples, and its size."""

    elements: list[bytes]
    examples: list[bytes]
    size_bytes: int


def _read(rows: Rows) -> Epoch:
    elements, examples = [], []
    for some in _several(rows):
        together = tuple(np.concatenate(parts) for parts in zip(*some, strict=True))
        digests = iter(example_digests(together))
        for leaves in some:
            own = list(islice(digests, len(leaves[0])))
            elements.append(b"".join(own))
            examples += own
    return Epoch(elements, examples, rows.count * rows.row_bytes)


def _several(rows: Rows) -> Iterator[list[list[Any]]]:
    """Yield small elements together, whose digests cost less than one by one."""
    some: list[list[Any]] = []
    for leaves in rows:
        # a generator may fill its array anew
        some.append([np.array(leaf) for leaf in leaves])
        if len(some) * sum(leaf.nbytes for leaf in leaves) >= TOGETHER_BYTES:
            yield some
            some = []
    if some:
        yield some


def _kept(python: PythonSource, epoch: Iterator[Any]) -> Epoch:
    kept = in_memory(Rows(python, epoch))
    remember_first_epoch(python, kept)
    return epoch_of(kept)


def epoch_of(kept: KeptRows) -> Epoch:
    """Return the epoch whose rows are kept."""
    batches = list(_digests_of(kept))
    examples = [digest for batch in batches for digest in batch]
    return Epoch([b"".join(batch) for batch in batches], examples, kept.size_bytes)


def _digests_of(kept: KeptRows) -> Iterator[list[bytes]]:
    """Yield the digests of the examples that are kept, batch by batch."""
    size = kept.batch_size
    for start in range(0, kept.count, size):
        yield example_digests(tuple(array[start : start + size] for array in kept.arrays))


def still_yields(python: PythonSource, kept: KeptRows) -> bool:
    """Return whether the examples of the first element are among those that are kept, in any
    order; True for a source that can be read only once, and for a data set that would draw."""
    value, origin = python.source.value, python.source.origin
    if python.goes_on or (origin == "dataset" and has_stage(value, "Shuffle")):
        return True
    first = [value[0]] if origin == "pydataset" else islice(python.elements(), 1)
    missing = {*_read(Rows(python, iter(first))).examples}
    for digests in _digests_of(kept):
        missing.difference_update(digests)
        if not missing:
            break
    return not missing
