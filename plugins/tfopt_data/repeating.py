"""Whether two epochs of a source in Python hold the same, told by digests of their examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import example_digests
from tfopt_data.kept_rows import KeptRows, in_memory
from tfopt_data.python_source import PythonSource, Rows

# What a later epoch is, compared with the one before: the same; the same batches, or the same
# examples, in another order.
Order = Literal["kept", "batches", "examples"]

_FIRST_EPOCHS: WeakKeyDictionary[Any, KeptRows] = WeakKeyDictionary()


def compared_epochs(python: PythonSource) -> tuple[Order, int]:
    """Read two epochs of a source and compare them, example by example.

    Return how the second is ordered, and the bytes of one.

    :raises PluginRefused: if they do not hold the same examples, or hold what cannot be kept.
    """
    epochs = python.epochs()
    first = _kept(python, next(epochs)) if python.goes_on else _read(Rows(python, next(epochs)))
    second = _read(Rows(python, next(epochs)))
    if first.elements == second.elements:
        order: Order = "kept"
    elif sorted(first.elements) == sorted(second.elements):
        order = "batches" if python.source.batched else "examples"
    elif sorted(first.examples) == sorted(second.examples):
        order = "examples"
    else:
        new = (Counter(second.examples) - Counter(first.examples)).total()
        raise PluginRefused(
            f"{python.name} yields other examples in each epoch: {new:,} of the second epoch's "
            f"{len(second.examples):,} are not among the {len(first.examples):,} of the first; "
            "materialize would repeat the first epoch, so leave it out of the stack"
        )
    return order, first.size_bytes


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
class _Epoch:
    elements: list[bytes]
    examples: list[bytes]
    size_bytes: int


def _read(rows: Rows) -> _Epoch:
    elements, examples = [], []
    for leaves in rows:
        digests = _digests(leaves)
        elements.append(b"".join(digests))
        examples += digests
    return _Epoch(elements, examples, rows.count * rows.row_bytes)


def _kept(python: PythonSource, epoch: Iterator[Any]) -> _Epoch:
    kept = in_memory(Rows(python, epoch))
    remember_first_epoch(python, kept)
    size = kept.batch_size
    batches = [
        _digests([array[start : start + size] for array in kept.arrays])
        for start in range(0, kept.count, size)
    ]
    examples = [digest for batch in batches for digest in batch]
    return _Epoch([b"".join(batch) for batch in batches], examples, kept.size_bytes)


def _digests(leaves: list[Any]) -> list[bytes]:
    return example_digests(tuple(leaves))
