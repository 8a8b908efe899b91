"""Compare digests of the first epochs of both sides: do they train on the same data?"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.hooks.card import Equivalence
from tfopt_core.records.replay import ReadEpoch


@attrs.frozen
class DataDifference:
    """How the data of two sides differ.

    :param statement: the difference in words.
    :param examples: whether the examples differ, and not only their order.
    """

    statement: str
    examples: bool


def data_difference(
    equivalence: Equivalence, baseline: Sequence[ReadEpoch], stack: Sequence[ReadEpoch]
) -> DataDifference | None:
    """Return how the stack's data differ from the baseline's; None if no difference was read.

    :param equivalence: "exact" and "unknown" require the same batches in the same order; "order"
        and "rounding" allow another order of the same examples.
    """
    for number, (ours, theirs) in enumerate(zip(baseline, stack, strict=False), start=1):
        if ours.whole and theirs.whole:
            examples = _examples(number, baseline, stack)
            if examples is not None:
                return DataDifference(examples, examples=True)
        if equivalence in ("exact", "unknown"):
            order = _order(number, baseline, stack)
            if order is not None:
                return DataDifference(order, examples=False)
    return None


def _examples(number: int, baseline: Sequence[ReadEpoch], stack: Sequence[ReadEpoch]) -> str | None:
    ours, theirs = baseline[number - 1], stack[number - 1]
    for what, before, after in (
        ("examples", ours.examples, theirs.examples),
        ("batches", ours.batches, theirs.batches),
    ):
        if before != after:
            return f"epoch {number} has {after:,} {what} instead of {before:,}"
    if ours.multiset == theirs.multiset:
        return None
    if number > 1 and theirs.multiset == stack[0].multiset:
        return f"epoch {number} repeats the examples of epoch 1, which are drawn anew without it"
    return f"epoch {number} holds other examples"


def _order(number: int, baseline: Sequence[ReadEpoch], stack: Sequence[ReadEpoch]) -> str | None:
    ours, theirs = baseline[number - 1], stack[number - 1]
    both_whole = ours.whole and theirs.whole
    if both_whole and ours.order == theirs.order:
        return None
    if both_whole and number > 1 and theirs.order == stack[0].order:
        return f"epoch {number} repeats the order of epoch 1, which is shuffled anew without it"
    place = "" if number == 1 else f" of epoch {number}"
    for index, (before, after) in enumerate(zip(ours.first, theirs.first, strict=False)):
        if before != after:
            return f"the batches{place} differ from batch {index} on"
    return f"the batches{place} differ after batch {len(ours.first) - 1}" if both_whole else None
