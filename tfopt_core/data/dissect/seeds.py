"""Find out when the reshuffling shuffles of a data set draw their seeds.

Most draw one when an iterator over the whole is made. Some stages make the iterators over their
inputs only while they are read (each pass of a repeat, a shuffle, the further parts of a
concatenation): shuffles before them draw then. A cache keeps the order of the pass that filled it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import attrs

from tfopt_core.data.dissect.walk import class_name, datasets
from tfopt_core.private_api import why_without

Reads = Literal["none", "first", "every"]
_READ_LATER = ("_RepeatDataset", "_ShuffleDataset")
# A cache before one of these may never be read to its end, and so never be filled.
_CUTTING = ("_TakeDataset", "_TakeWhileDataset", "_ZipDataset")


@attrs.frozen
class _SeedDraws:
    """How shuffles draw: in `each` pass; `later` than at the start; or into a `filled` cache."""

    each: bool = False
    later: bool = False
    filled: bool = False


def passes_to_read(dataset: Any) -> Reads:
    """Return which earlier passes to read, so that the next one comes in its own order.

    For the others it is enough to make the iterators. Unknown data sets, and those that functions
    of a data set make, are not examined.
    """
    if why_without("shuffle-orders"):
        return "every"  # this is right for every data set
    drawn = _drawn(dataset)
    if drawn.later:
        return "every"
    return "first" if drawn.filled else "none"


def reshuffling(dataset: Any) -> Iterator[Any]:
    """Yield the reshuffling shuffles of a data set, the last one first."""
    if why_without("shuffle-orders"):
        return
    for one in datasets(dataset):
        if class_name(one) == "_ShuffleDataset" and one._reshuffle_each_iteration:
            yield one


def seeds_of(shuffle: Any) -> tuple[int, int]:
    """Return what tf.data made of the global seed and that of a shuffle."""
    return int(shuffle._seed), int(shuffle._seed2)


def _drawn(dataset: Any) -> _SeedDraws:
    inputs = [_drawn(part) for part in getattr(dataset, "_inputs", tuple)()]
    each, later, filled = (
        any(getattr(part, field) for part in inputs) for field in ("each", "later", "filled")
    )
    name = class_name(dataset)
    if name in _READ_LATER:
        later = later or each
    if name == "_ConcatenateDataset":
        later = later or any(part.each for part in inputs[1:])
    if name in _CUTTING:
        later = later or filled
    if name == "_ShuffleDataset":
        each = each or bool(dataset._reshuffle_each_iteration)
    if name == "CacheDataset" and (each or later):
        return _SeedDraws(filled=True)
    return _SeedDraws(each, later, filled)
