"""Whether a data plan may be cached, and where: behind what is worth keeping and never changes."""

from __future__ import annotations

from typing import Literal

from tfopt_core.data import Cache, Resident, has_stage
from tfopt_core.plugins import DataPlan, PluginRefused
from tfopt_core.toolkit import size_in_words
from tfopt_data.cache_storage import element_bytes
from tfopt_data.prefix import (
    Prefix,
    deterministic_prefix,
    is_reshuffled,
    misplaced_cache,
    out_of_order,
    unsteady,
)
from tfopt_data.rewrite import stages_of

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
    by_chance = out_of_order(plan, prefix.head)
    if by_chance and not _is_reordered_behind(plan, prefix):
        return (
            f"{by_chance}, and a cache would keep the first epoch's for all, as no shuffle follows"
        )
    return prefix


def _is_reordered_behind(plan: DataPlan, prefix: Prefix) -> bool:
    if plan.with_stages(prefix.head).batched:
        return False  # which examples share a batch would be kept too
    return is_reshuffled([stage for stage in plan.stages if stage not in prefix.head])


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
        f"the {source.origin} is opaque and not known to yield the same examples each time; if it "
        f"does, make it with DataPlan.from_{source.origin}(..., deterministic=True)"
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
