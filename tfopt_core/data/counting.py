"""Count the elements that the stages of a pipeline yield."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tfopt_core.data.stages import Count, Stage


def counts(stages: Sequence[Stage]) -> list[Count]:
    """Return the count after each of these stages, the source first."""
    behind = accumulate(stages, lambda count, stage: stage.count_after(count), initial=Count())
    return list(behind)[1:]


def counted(stages: Sequence[Stage]) -> Count:
    """Return the count after the last of these stages."""
    return counts(stages)[-1]


def examples_begin(stages: Sequence[Stage]) -> int:
    """Return the index of the first stage whose input are the training examples: after the last
    stage that makes new elements before batching."""
    batched = [count.batched for count in counts(stages)]
    begin = 1
    for index, stage in enumerate(stages[1:], start=1):
        if not batched[index - 1] and all(batched[index:]):
            break  # from here on there are batches only
        if stage.yields == "new":
            begin = index + 1
    return begin
