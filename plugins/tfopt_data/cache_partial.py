"""The hybrid cache: as many elements as fit are kept in memory, the others are computed anew."""

from __future__ import annotations

import math

import attrs

from tfopt_core.data import (
    Batch,
    Cache,
    Skip,
    Source,
    Stage,
    Take,
    lower_plan,
    overhead_bytes,
)
from tfopt_core.plugins import DataPlan
from tfopt_core.toolkit import size_in_words
from tfopt_data.cache_storage import SAMPLE_ELEMENTS, element_bytes


@attrs.frozen(eq=False)
class Part:
    """How much of what a deterministic plan yields can be kept.

    Its work on single elements begins at the stage `cut`; before it there are `count` elements
    (None where that is unknown), of which the first `fitting` are kept. Each of them becomes
    `each_bytes`, and no more than `budget_bytes` may be held.
    """

    cut: int
    count: int | None
    fitting: int
    each_bytes: float
    budget_bytes: float

    @property
    def whole(self) -> bool:
        """Whether all of it fits."""
        return self.count is not None and self.count <= self.fitting

    def describe(self) -> str:
        """The figures: `30 of 100 elements, about 23 KiB, the others streamed`."""
        of = "first elements" if self.count is None else f"of {self.count:,} elements"
        size = size_in_words(self.fitting * self.each_bytes)
        return f"{self.fitting:,} {of}, about {size}, the others streamed"


def fitting_part(head: DataPlan, budget_bytes: float) -> Part | str:
    """How much of what the plan yields fits into the budget, or why no part can be kept.

    A source element costs what becomes of it, so a sample of the first ones tells how many fit.
    """
    cut, multiple = _cut(head.stages)
    if not any(stage.computes for stage in head.stages[cut:]):
        return "there is no work on single elements that keeping a part would save"
    each = _bytes_each(head, cut, multiple)
    if each is None:
        return "the first elements yield nothing, so their size is unknown"
    part = Part(
        cut=cut,
        count=head.upto(cut).cardinality,
        fitting=int(budget_bytes / each) // multiple * multiple,
        each_bytes=each,
        budget_bytes=budget_bytes,
    )
    if part.fitting == 0 and not part.whole:
        return (
            f"not even {_elements(multiple)} of {size_in_words(each)} fits into "
            f"{size_in_words(budget_bytes)}"
        )
    return part


def hybrid_source(head: DataPlan, part: Part) -> Source:
    """A source that yields what the plan yields, in the same order: the first elements from a
    cache in memory, the others computed each time."""
    base, work = head.stages[: part.cut], head.stages[part.cut :]
    kept = head.with_stages((*base, Take(count=part.fitting), *work, Cache()))
    streamed = head.with_stages((*base, Skip(count=part.fitting), *work))
    return Source(
        value=(kept, streamed),
        origin="concatenate",
        count=head.cardinality,
        batched=head.batched,
        deterministic=True,
    )


def _cut(stages: tuple[Stage, ...]) -> tuple[int, int]:
    """Where the work on single elements begins, and by which number their count must divide.

    f(first elements) + f(the others) = f(all of them) holds for maps, filters and the like; for
    batches too where the number of elements before them is a multiple of their size.
    """
    cut, multiple, batched = len(stages), 1, False
    for index in range(len(stages) - 1, 0, -1):
        stage = stages[index]
        if isinstance(stage, Batch):
            multiple, batched = multiple * stage.size, True
        elif not stage.elementwise or (batched and stage.yields != "mapped"):
            break
        cut = index
    return cut, multiple


def _bytes_each(head: DataPlan, cut: int, multiple: int) -> float | None:
    """What becomes of one element at the cut, in bytes of memory; None if nothing does."""
    sample = math.ceil(SAMPLE_ELEMENTS / multiple) * multiple
    taken = head.with_stages((*head.stages[:cut], Take(count=sample), *head.stages[cut:]))
    yielded = sum(1 for _ in lower_plan(taken))
    there = sum(1 for _ in lower_plan(taken.upto(cut + 1)))
    if not yielded:
        return None
    return yielded * (element_bytes(taken) + overhead_bytes(taken)) / there


def _elements(count: int) -> str:
    return "one element" if count == 1 else f"a batch of {count:,} elements"
