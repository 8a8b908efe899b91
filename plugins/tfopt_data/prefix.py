"""How far a data plan yields the same elements each time: whether it may be cached, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from tfopt_core.data import (
    Batch,
    Cache,
    Map,
    Prefetch,
    Repeat,
    Resident,
    Source,
    Stage,
    function_name,
    has_stage,
    in_any_order,
    random_ops,
)
from tfopt_core.plugins import DataPlan, PluginRefused
from tfopt_core.toolkit import size_in_words
from tfopt_data.cache_storage import element_bytes
from tfopt_data.rewrite import stages_of

# Random ops whose state begins anew with each iterator; a generator's, a variable's and Python's
# goes on where the last reader left it.
_STATE_OF_READER = "Random", "TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial"


@attrs.frozen(eq=False)
class Prefix:
    """The longest deterministic prefix that a plan can be given.

    `head` are its stages, the source first. `passed` are the shuffles and repeats before which
    maps of `head` were moved: a map of single elements gives the same elements either way.
    `stopped` says what ended the prefix, "" where nothing but batching did.
    """

    head: tuple[Stage, ...]
    passed: tuple[Stage, ...] = ()
    stopped: str = ""

    @property
    def computes(self) -> bool:
        """Whether the prefix does work that a cache would save; arrays alone are in memory."""
        return _computes(self.head)


def deterministic_prefix(plan: DataPlan) -> Prefix:
    """Walk the plan up to the first stage that may yield something else the next time.

    A map directly behind a reshuffling shuffle, or behind a repeat, is moved before it.
    """
    head: list[Stage] = [plan.source]
    behind: list[Stage] = []
    passed: tuple[Stage, ...] = ()
    stopped = ""
    for stage in plan.stages[1:]:
        if stage.neutral:
            continue
        if isinstance(stage, Repeat) or _reshuffles(stage):
            behind.append(stage)
            continue
        if behind and not isinstance(stage, Map):
            if not isinstance(stage, Batch):
                stopped = f'"{stage.describe()}" stands behind "{behind[-1].describe()}"'
            elif any(isinstance(later, Map) for later in plan.stages):
                stopped = "what follows is computed from batches that are shuffled anew"
            break
        # looked at on top of the prefix: its elements are the same there, and no shuffle is
        # built for it, which would count the examples and draw a seed
        ops = random_ops(plan.with_stages((*head, stage)), len(head))
        if ops:
            stopped = why_unsteady(stage, ops)
            break
        if behind:
            passed = tuple(behind)
        head.append(stage)
    while len(head) > 1 and head[-1].cheap:
        head.pop()
    return Prefix(tuple(head), passed, stopped)


def unsteady_stage(plan: DataPlan) -> str:
    """The first stage that draws at random, in words, "" if there is none."""
    for index, _ in enumerate(plan.stages[1:], start=1):
        if ops := random_ops(plan, index):
            return why_unsteady(plan.stages[index], ops)
    return ""


def out_of_order(plan: DataPlan, stages: Sequence[Stage]) -> str:
    """The first of these stages of the plan that yields its elements as they happen to be ready,
    in words, "" if there is none. Options that leave the order to chance do so for all stages."""
    unordered = in_any_order(plan.stages)
    for stage in stages:
        if stage in unordered:
            return f'"{stage.describe()}" yields its elements in any order'
    return ""


def is_reshuffled(stages: Sequence[Stage]) -> bool:
    """Whether single examples that pass these stages get another order in each epoch."""
    for stage in stages:
        if _reshuffles(stage):
            return True
        if stage.yields == "new":
            return False  # batches are shuffled as a whole
    return False


def unsteady(plan: DataPlan) -> str:
    """Why a plan may yield other elements or another order the next time, "" if it may not."""
    source = plan.source
    if not source.parts and not source.deterministic:
        return f"the {source.origin} is not known to yield the same examples each time"
    for part in source.parts:
        if reason := unsteady(part):
            return reason
    for index, stage in enumerate(plan.stages[1:], start=1):
        if _reshuffles(stage):
            return f'"{stage.describe()}" gives each epoch another order'
        if ops := random_ops(plan, index):
            return why_unsteady(stage, ops)
    return out_of_order(plan, plan.stages)


def misplaced_cache(plan: DataPlan) -> str:
    """What a cache of the workload's own freezes, "" if none does."""
    for part in plan.source.parts:
        if reason := misplaced_cache(part):
            return reason
    place = plan.find(Cache)
    if place is None:
        return ""
    for index, stage in enumerate(plan.stages[1:place], start=1):
        if _reshuffles(stage):
            return (
                f'it stands behind "{stage.describe()}", so each epoch has the first one\'s order'
            )
        if ops := random_ops(plan, index):
            return f"each epoch sees the first one's values, since {why_unsteady(stage, ops)}"
    return ""


def changed_by_reading_ahead(plan: DataPlan) -> str:
    """Why what later iterators yield depends on how far is read ahead, "" if it does not.

    tf.data adds a small prefetch itself where it tunes and the plan ends without one. The reading
    of data that are repeated, or whose steps are given, is broken off, with what was read ahead:
    passes of a shuffle were begun that draw the seed which the next iterator would get, and a
    generator has drawn.
    """
    plan = _taken_apart(plan)
    repeats = [place for place, stage in enumerate(plan.stages) if isinstance(stage, Repeat)]
    last = repeats[-1] if repeats else 0
    if not (repeats or plan.read_in_parts) or _ends_with_prefetch(plan):
        return ""
    if any(_reshuffles(stage) for stage in plan.stages[:last]):
        return (
            "a repeat follows a shuffle, so the order of later iterators depends on how far is "
            "read ahead"
        )
    for index in range(not plan.source.parts, len(plan.stages)):
        if _reshuffles(plan.stages[index]):  # its seed is drawn when an iterator is made
            continue
        ops = random_ops(plan, index)
        if kept := tuple(op for op in ops if not op.startswith(_STATE_OF_READER)):
            return (
                f"{why_unsteady(plan.stages[index], kept)}, and a pass may end before the data, so "
                "what is drawn later depends on how far is read ahead"
            )
    return ""


def left_unfilled(plan: DataPlan) -> str:
    """Why a cache of the workload's own may no longer freeze what it does where tf.data adds no
    prefetch at the end; "" if that changes nothing.

    Keras asks for no more than the batches that it counts, or is told to. What the last one leaves,
    such as a remainder that is dropped, only a prefetch reads, and an unfilled cache starts anew.
    """
    plan = _taken_apart(plan)
    frozen = misplaced_cache(plan)
    if not frozen or _ends_with_prefetch(plan):
        return ""
    place = plan.find(Cache)
    behind = plan.stages if place is None else plan.stages[place + 1 :]
    leaves = (one.yields == "some" or getattr(one, "drop_remainder", False) for one in behind)
    if not plan.read_in_parts and not any(leaves):
        return ""
    return f"your cache would not be filled without a prefetch at the end, and {frozen}"


def _taken_apart(plan: DataPlan) -> DataPlan:
    """Return the stages of a plan, to look at, also of what is not built anew."""
    if plan.source.origin != "dataset":
        return plan
    before = DataPlan.from_dataset(plan.source.value)
    return attrs.evolve(plan, stages=before.stages + plan.stages[1:], given=())


def _ends_with_prefetch(plan: DataPlan) -> bool:
    ends = [one for one in plan.lowering_order() if isinstance(one, Prefetch) or not one.neutral]
    return isinstance(ends[-1], Prefetch)


def _reshuffles(stage: Stage) -> bool:
    return stage.order == "shuffled" and stage.yields == "same" and not stage.deterministic


def _computes(stages: tuple[Stage, ...]) -> bool:
    source, *rest = stages
    assert isinstance(source, Source)
    if any(stage.computes for stage in rest):
        return True
    if source.parts:
        return any(_computes(part.stages) for part in source.parts)
    return source.origin not in ("arrays", "range", "tensors")


def why_unsteady(stage: Stage, ops: tuple[str, ...]) -> str:
    """Return what a stage with these changing ops does, in words."""
    name = function_name(getattr(stage, "function", stage))
    if ops == (stage.kind,):
        return f'{stage.kind} "{name}" is not known to be deterministic'
    return f'{stage.kind} "{name}" yields something else each time (op {", ".join(ops)})'


Place = Literal["auto", "end"]


def cache_prefix(plan: DataPlan, place: Place) -> Prefix | str:
    """What a cache would keep, or why none may be put anywhere into this plan.

    :raises PluginRefused: if not all of what is computed can be kept, and that was asked for.
    """
    refusal = no_cache(plan)
    if refusal:
        return refusal
    prefix = deterministic_prefix(plan)
    if place == "end" and prefix.stopped:
        raise PluginRefused(
            f"a cache at the end would freeze what is before it: {prefix.stopped}; set "
            'place = "auto"'
        )
    if not prefix.computes:
        if prefix.stopped:
            return f"nothing before it is worth keeping: {prefix.stopped}"
        return "the data are arrays in memory, and nothing is computed from them"
    for stage in plan.stages:
        if stage.stops_early and stage not in prefix.head:
            return f'"{stage.describe()}" stops reading before the cache is full'
    if by_chance := kept_by_chance(plan, prefix):
        return (
            f"{by_chance}, and a cache would keep the first epoch's for all, as no shuffle follows"
        )
    return prefix


def kept_by_chance(plan: DataPlan, prefix: Prefix) -> str:
    """Which stage of the prefix yields elements in any order, in words; "" if none does, or if a
    shuffle follows. Where it makes batches, which examples share one would be kept too."""
    by_chance = out_of_order(plan, prefix.head)
    rest = [stage for stage in plan.stages if stage not in prefix.head]
    reordered = is_reshuffled(rest) and not plan.with_stages(prefix.head).batched
    return "" if reordered else by_chance


def no_cache(plan: DataPlan) -> str:
    """Why no cache may be put anywhere into this plan, "" if one may."""
    source = plan.source
    if source.origin == "pydataset":
        return "a PyDataset is read by Keras itself, not by tf.data"
    if plan.find(Resident) is not None:
        return "the data are held on the device, computed once"
    if any(stages_of(plan, Cache)):
        misplaced = misplaced_cache(plan)
        said = f", and in a wrong place: {misplaced}; move it" if misplaced else ""
        return f"the workload caches its data itself{said}"
    if source.parts:
        return unsteady(plan.with_stages((source,)))
    if source.deterministic:
        return ""
    if source.origin == "dataset" and has_stage(source.value, "Cache"):
        return "the workload's data set has a cache of its own"
    return (
        f"the {source.origin} is not known to yield the same examples each time (a factory says so "
        f"with DataPlan.from_{source.origin}(..., deterministic=True))"
    )


def where_it_stands(prefix: Prefix) -> str:
    place = f"after {prefix.head[-1].describe()}"
    return f"{place}, moved before {prefix.passed[0].describe()}" if prefix.passed else place


def heavy_shuffle(plan: DataPlan, prefix: Prefix, memory_bytes: float) -> str:
    """Why a shuffle of computed examples would undo a cache on disk, "" if it would not."""
    head = plan.with_stages(prefix.head)
    for stage in prefix.passed:
        if stage.holds == 0:
            continue
        count = head.cardinality if stage.holds is None else stage.holds
        if count is None:
            return "the shuffle behind it would hold an unknown number of computed examples"
        held = count * element_bytes(head)
        if held > memory_bytes:
            return (
                f"the shuffle behind it would hold {size_in_words(held)} of computed examples in "
                f"memory, and {size_in_words(memory_bytes)} may be used; give the shuffle a "
                "smaller buffer"
            )
    return ""
