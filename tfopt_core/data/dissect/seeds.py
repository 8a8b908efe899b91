"""When the reshuffling shuffles of a data set draw their seeds.

Most draw one when an iterator over the whole is made. What stands before a stage that makes the
iterators over its inputs only while it is read (each pass of a repeat, a shuffle, the further
parts of a concatenation) draws with it; and a cache keeps the order of whichever pass filled it.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data.dissect.walk import class_name
from tfopt_core.private_api import why_without

Reads = Literal["none", "first", "every"]
_READ_LATER = ("_RepeatDataset", "_ShuffleDataset")
# Behind one of these a cache may never be read to its end, and so never be filled.
_CUTTING = ("_TakeDataset", "_TakeWhileDataset", "_ZipDataset")


@attrs.frozen
class _Drawn:
    """`each` pass still draws; `later` than when its iterator is made; or a cache is `filled`."""

    each: bool = False
    later: bool = False
    filled: bool = False


def passes_to_read(dataset: Any) -> Reads:
    """Which earlier passes must be read for the next one to come in the order that it would have.

    Of the others it is enough to make the iterators. Data sets of an unknown make, and what the
    functions of a data set make, are not looked into.
    """
    if why_without("shuffle-orders"):
        return "every"  # whatever it is made from, this brings the next pass
    drawn = _drawn(dataset)
    if drawn.later:
        return "every"
    return "first" if drawn.filled else "none"


def _drawn(dataset: Any) -> _Drawn:
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
        return _Drawn(filled=True)
    return _Drawn(each, later, filled)
