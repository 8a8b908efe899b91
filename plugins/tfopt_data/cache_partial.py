"""The hybrid cache: as many elements as fit are kept in memory, the others are computed anew."""

from __future__ import annotations

import math

import attrs

from tfopt_core import DataPlan
from tfopt_core.data import (
    Batch,
    Cache,
    Filter,
    Interleave,
    Map,
    Skip,
    Source,
    Stage,
    Take,
    Unbatch,
)
from tfopt_core.data.lower import lower_plan
from tfopt_data.cache_storage import SAMPLE_ELEMENTS, element_bytes
from tfopt_data.rewrite import size_in_words


@attrs.frozen(eq=False)
class Hybrid:
    """A source whose first elements come from memory; `said` are the figures.

    `source` is None where the budget is no limit or nothing fits: `said` tells which.
    """

    source: Source | None
    said: str
    whole: bool = False


def hybrid_source(head: DataPlan, budget_bytes: float) -> Hybrid:
    """A source that yields what a deterministic plan yields, in the same order: the first elements
    from a cache that takes at most so many bytes, the others computed each time.

    The plan is cut where its work on single elements begins. A source element costs what becomes
    of it, so a sample of the first ones tells how many fit.
    """
    cut, multiple = _cut(head.stages)
    base, work = head.stages[:cut], head.stages[cut:]
    if not any(isinstance(stage, Map | Filter | Interleave) for stage in work):
        return Hybrid(None, "there is no work on single elements that keeping a part would save")
    each = _bytes_each(head, cut, multiple)
    if each is None:
        return Hybrid(None, "the first elements yield nothing, so their size is unknown")
    count = head.upto(cut).cardinality
    fitting = int(budget_bytes / each) // multiple * multiple
    if count is not None and count <= fitting:
        return Hybrid(None, "all of it fits", whole=True)
    if fitting == 0:
        return Hybrid(
            None,
            f"not even {_elements(multiple)} of {size_in_words(each)} fits into "
            f"{size_in_words(budget_bytes)}",
        )
    kept = head.with_stages((*base, Take(count=fitting), *work, Cache()))
    streamed = head.with_stages((*base, Skip(count=fitting), *work))
    source = Source(
        value=(kept, streamed),
        origin="concatenate",
        count=head.cardinality,
        batched=head.batched,
        deterministic=True,
    )
    of = f"{fitting:,} of {count:,}" if count is not None else f"the first {fitting:,}"
    return Hybrid(
        source, f"{of} elements, about {size_in_words(fitting * each)}, the others streamed"
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
        elif not (isinstance(stage, Map) or (not batched and _is_elementwise(stage))):
            break
        cut = index
    return cut, multiple


def _is_elementwise(stage: Stage) -> bool:
    if isinstance(stage, Interleave):
        return stage.cycle_length == 1
    return isinstance(stage, Filter | Unbatch)


def _bytes_each(head: DataPlan, cut: int, multiple: int) -> float | None:
    """What becomes of one element at the cut, in bytes; None if nothing does."""
    sample = math.ceil(SAMPLE_ELEMENTS / multiple) * multiple
    taken = head.with_stages((*head.stages[:cut], Take(count=sample), *head.stages[cut:]))
    yielded = sum(1 for _ in lower_plan(taken))
    there = sum(1 for _ in lower_plan(taken.upto(cut + 1)))
    each = yielded * element_bytes(taken) / there if there else 0.0
    return each or None


def _elements(count: int) -> str:
    return "one element" if count == 1 else f"a batch of {count:,} elements"
