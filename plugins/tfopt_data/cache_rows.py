"""The cache of rows: what maps over batches make is kept row by row, then shuffled and batched.

A tf.data cache keeps elements, so behind a shuffle of examples it would freeze which of them share
a batch. A map that makes each row of one row alone makes the same rows in any batch: they are
computed once, in the order of the source, and the shuffle and the batch draw from them.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs

from tfopt_core.data import (
    Batch,
    Cache,
    Map,
    MapBatches,
    Source,
    Stage,
    function_name,
    random_ops,
    tensor_bytes,
)
from tfopt_core.plugins import DataPlan, PluginRefused
from tfopt_core.toolkit import size_in_words, tf, why_without
from tfopt_data.cache_storage import DISK_SHARE, free_disk_bytes, too_large
from tfopt_data.computed_rows import (
    ComputedRows,
    Examples,
    Maps,
    RowsDiffer,
    named,
    row_count,
    rows_at,
)
from tfopt_data.kept_rows import KeptRows, in_files, in_memory
from tfopt_data.prefix import (
    deterministic_prefix,
    is_reshuffled,
    no_cache,
    out_of_order,
    why_unsteady,
)
from tfopt_data.rewrite import Rewrite


@attrs.frozen(eq=False)
class MapsOverBatches:
    """Maps over batches of examples that a plan draws anew each epoch.

    :param head: the stages that yield the same examples each time, the source first.
    :param between: those that order and choose examples, up to the batch.
    """

    head: tuple[Stage, ...]
    between: tuple[Stage, ...]
    batch: Batch
    maps: tuple[MapBatches, ...]


@attrs.frozen(kw_only=True, eq=False)
class RowSource(Source):
    """Rows that maps over batches made; `names` are those of the maps."""

    names: str

    def describe(self) -> str:
        return f"source: rows of {self.names}, {self.count:,} examples"


def maps_over_batches(plan: DataPlan) -> MapsOverBatches | None:
    """Return the maps over batches of examples that are drawn anew; None if the plan has none, or
    may not be cached at all."""
    if no_cache(plan):
        return None
    head = deterministic_prefix(plan).head
    if plan.with_stages(head).batched:
        return None
    rest = [stage for stage in plan.stages if stage not in head and not stage.neutral]
    between = tuple(takewhile(lambda stage: not isinstance(stage, Batch), rest))
    if not between or not all(map(_only_picks, between)) or len(between) == len(rest):
        return None
    batch, *behind = rest[len(between) :]
    if type(batch) is not Batch:
        return None
    maps: list[MapBatches] = []
    for stage in behind:
        if not isinstance(stage, MapBatches):
            break
        maps.append(stage)
    return MapsOverBatches(head, between, batch, tuple(maps)) if maps else None


def with_cached_rows(
    plan: DataPlan,
    found: MapsOverBatches,
    memory_bytes: float | None = None,
    folder: Path | None = None,
    *,
    at_end: bool = False,
) -> Rewrite:
    """The plan that takes its batches from rows which its maps over batches made once.

    Elements and their order stay the same. Maps are kept up to the first one that draws at random
    or whose rows depend on each other, which is named.

    :param memory_bytes: what the rows may take in memory; None for no limit.
    :param folder: where they are kept if they do not fit into that; None refuses.
    :param at_end: refuses where a map is left behind the rows.
    :raises PluginRefused: for a map that is left behind the rows and may not be.
    """
    by_chance = out_of_order(plan, found.head)
    if by_chance and not is_reshuffled(found.between):
        return Rewrite(plan, reason=f"{by_chance}, and no shuffle follows")
    began = perf_counter()
    examples = Examples(plan.with_stages(found.head), found.batch)
    rows = examples.first_rows()
    if rows is None:
        return Rewrite(plan, reason="there are no examples")
    maps, left = _maps_by_rows(plan, found, examples, rows)
    if left and at_end:
        raise PluginRefused(f'not all that is computed can be kept: {left}; set place = "auto"')
    if maps is None:
        return Rewrite(plan, reason=left)
    batch = rows_at(rows, tf.range(min(row_count(rows), found.batch.size)))
    row_bytes = _bytes(maps(batch)) / row_count(batch)
    place = _room(examples.head.cardinality, row_bytes, memory_bytes, folder)
    if place not in ("memory", "disk"):
        return Rewrite(plan, reason=place)
    computed = ComputedRows(examples, maps, row_bytes + _bytes(rows) / row_count(rows))
    try:
        if place == "memory" or folder is None:
            kept = in_memory(computed, examples.head.cardinality or 1)
        else:
            kept = in_files(computed, folder)
    except RowsDiffer as differ:
        return Rewrite(plan, reason=str(differ))
    done = (
        f"{'in' if place == 'memory' else 'on'} {place}, {kept.count:,} rows of {maps.names}, "
        f"computed in {perf_counter() - began:.2g} s, about {size_in_words(kept.size_bytes)}"
    )
    return Rewrite(
        _reading(plan, found, maps, kept, mapped=place == "disk"),
        done=f"{done}; not kept: {left}" if left else done,
        confirmed=lambda dataset: _is_without(dataset, maps),
    )


def _maps_by_rows(
    plan: DataPlan, found: MapsOverBatches, examples: Examples, rows: Any
) -> tuple[Maps | None, str]:
    """Return as many of the maps as can be kept, and why the next one cannot be."""
    spec = examples.spec
    kept: Maps | None = None
    for number, stage in enumerate(found.maps, start=1):
        stages = (*found.head, found.batch, *found.maps[:number])
        if ops := random_ops(plan.with_stages(stages), len(stages) - 1):
            return kept, f"{named(stage)}: {why_unsteady(stage, ops)}"
        maps = Maps.of(found.maps[:number], spec)
        why = maps.why_unkept()
        if why and number < len(found.maps):
            continue  # the next one may make rows of it
        why = why or maps.why_mixed(examples, rows)
        if why:
            return kept, f"{named(stage)} {why}"
        kept = maps
    return kept, ""


def _room(
    count: int | None, row_bytes: float, memory_bytes: float | None, folder: Path | None
) -> str:
    """Return "memory" or "disk", or why the rows fit into neither."""
    if memory_bytes is None:
        return "memory"
    if count is None:
        return "the number of rows is unknown" if folder is None else "disk"
    what, needed = "the rows need", count * row_bytes
    reason = too_large(what, needed, memory_bytes, 'of memory may be used; set storage = "disk"')
    if not reason:
        return "memory"
    if folder is None:
        return reason
    free = free_disk_bytes(folder)
    return too_large(what, needed, free, "are free on the disk", DISK_SHARE) or "disk"


def _bytes(element: Any) -> float:
    return float(sum(map(tensor_bytes, tf.nest.flatten(element))))


def _reading(
    plan: DataPlan, found: MapsOverBatches, maps: Maps, kept: KeptRows, *, mapped: bool
) -> DataPlan:
    """Return the plan over what is kept, with all stages but those that it replaces."""
    source = RowSource(
        value=(0, kept.count, 1) if mapped else kept.value,
        origin="range" if mapped else "arrays",
        count=kept.count,
        names=maps.names,
    )
    stages: list[Stage] = [source]
    for stage in plan.stages:
        if stage in found.head or stage in maps.stages:
            continue
        stages.append(stage)
        if stage is found.batch and mapped:
            stages.append(MapBatches(function=kept.at, deterministic=True))
    return plan.with_stages(stages)


def _is_without(dataset: Any, maps: Maps) -> bool:
    """Whether a lowered data set no longer has the maps."""
    if why_without("data-sets"):
        return False
    names = {function_name(stage.function) for stage in maps.stages}
    stages = DataPlan.from_dataset(dataset).stages
    return not any(isinstance(s, Map) and function_name(s.function) in names for s in stages)


def _only_picks(stage: Stage) -> bool:
    """Whether a stage orders and chooses elements without looking at them."""
    picks = stage.yields in ("same", "some") and not isinstance(stage, Cache)
    return picks and not hasattr(stage, "function")
