"""The cache: keep what the deterministic part of an input pipeline computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import attrs

from tfopt_core.data import Cache as CacheStage
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    PluginRefused,
    Probe,
    RunContext,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import number_or
from tfopt_data.cache_partial import fitting_part, hybrid_source, with_kept_results
from tfopt_data.cache_rows import MapsOverBatches, maps_over_batches, with_cached_rows
from tfopt_data.cache_storage import (
    MEMORY_SHARE,
    about,
    budget_bytes,
    choose_storage,
    incomplete,
    kept_bytes,
    needed_bytes,
    private_path,
    too_large,
    too_large_for_disk,
)
from tfopt_data.prefix import (
    Place,
    Prefix,
    cache_prefix,
    heavy_shuffle,
    out_of_order,
    where_it_stands,
)
from tfopt_data.rewrite import (
    Rewrite,
    RewritingPlugin,
    costly_input,
    effect,
    splits_setting,
    stages_of,
    with_split_maps,
)

Storage = Literal["auto", "memory", "disk", "disk-or-partial", "partial"]


def with_cache(
    plan: DataPlan,
    path: Path | None = None,
    memory_bytes: float | None = None,
    place: Place = "auto",
) -> Rewrite:
    """The plan with a cache after its longest deterministic prefix.

    Deterministic maps that stand behind a shuffle or repeat are moved before it, so the elements
    stay the same and each epoch is still shuffled anew. Nothing random is ever kept.

    :param path: the file to keep the elements in; None keeps them in memory.
    :param memory_bytes: what a shuffle behind a cache on disk may hold; None for no limit.
    :param place: "end" refuses where the prefix is not all that the plan computes.
    :raises PluginRefused: for a cache at the end that would freeze something; it is named.
    """
    prefix = cache_prefix(plan, place)
    if isinstance(prefix, str):
        return Rewrite(plan, reason=prefix)
    if path is not None and memory_bytes is not None:
        heavy = heavy_shuffle(plan, prefix, memory_bytes)
        if heavy:
            return Rewrite(plan, reason=heavy)
    rest = tuple(stage for stage in plan.stages if stage not in prefix.head)
    cached = plan.with_stages((*prefix.head, CacheStage(path=path), *rest))
    return Rewrite(
        cached, done=f"{'in memory' if path is None else 'on disk'}, {where_it_stands(prefix)}"
    )


def with_partial_cache(plan: DataPlan, budget_bytes: float, place: Place = "auto") -> Rewrite:
    """The plan with as many elements in memory as fit into the budget, the others streamed.

    Elements and their order stay the same. A plan that fits whole is cached whole.

    :raises PluginRefused: see `with_cache`.
    """
    prefix = cache_prefix(plan, place)
    if isinstance(prefix, str):
        return Rewrite(plan, reason=prefix)
    head = plan.with_stages(prefix.head)
    part = fitting_part(head, budget_bytes)
    if isinstance(part, str):
        return Rewrite(plan, reason=part)
    if part.whole:
        return with_cache(plan, place=place)
    by_chance = out_of_order(plan, head.stages[: part.cut])
    if by_chance:
        return Rewrite(plan, reason=f"{by_chance}, so which come first differs from epoch to epoch")
    done = f"in memory in part: {part.describe()}, {where_it_stands(prefix)}"
    heavy = heavy_shuffle(plan, prefix, budget_bytes)
    if heavy:
        return with_kept_results(plan, prefix, part, heavy)
    rest = tuple(stage for stage in plan.stages if stage not in prefix.head)
    return Rewrite(plan.with_stages((hybrid_source(head, part), *rest)), done=done)


@plugin
class Cache(RewritingPlugin):
    """Keeps decoded examples, so that they are read and computed in the first epoch only.

    What it does: puts a tf.data cache behind the longest part of the input pipeline that yields
    the same each time. Deterministic maps behind a shuffle are moved before it; random
    augmentation is never kept: of a map that decodes and then augments, what it computes before it
    draws is kept. Where a map takes whole batches behind a shuffle (with a
    FeatureSpace, say) and makes each row of one row alone, its rows are computed before the first
    step, and the shuffle and the batch draw from them; real batches are reordered, split and
    repeated to find that out. Examples go into memory if they fit into half of what is free, else
    on the disk if it has room, else as many as fit are kept in memory and the others are streamed.

    Why it helps: reading, decoding, resizing and looking up (in a table whose entries cannot
    change) are paid once instead of once an epoch. Rows that are kept are gathered by their number,
    which is faster than slicing a table.

    When it does not: for arrays that nothing is computed from, for one epoch, and where the
    training, not the input, is the bottleneck. A cache on disk can be slower than none. A map over
    batches that uses the other rows of its batch, or pads to the longest one, is computed anew, and
    named with its line; so is one that makes ragged tensors or text. Where a script reads its
    shuffled data before `fit` (a layer is adapted on them), a shuffle that is built anew begins
    with its first order again: the same examples, but no certificate; adapt on other data.

    Mixes with: prefetch and parallel-map; with the latter the first epoch is faster too. A shuffle
    over all examples behind a cache on disk would hold them in memory, so there is none then; in
    part, maps behind such a shuffle keep their results by the number of the example. Rows that are
    kept are arrays: resident and chunked can stand on them.

    Reference: https://www.tensorflow.org/guide/data_performance#caching
    """

    targets = ("input",)
    equivalence = "exact"  # the elements and their order are the same

    storage: Storage = setting(
        default="auto",
        help="Where examples are kept; disk is the run's own folder; partial keeps what fits "
        "into memory and streams the rest; disk-or-partial is partial where the disk has no room "
        "or a shuffle stands against it; auto takes memory if they fit, else that.",
    )
    place: Place = setting(
        default="auto",
        help="auto stands before anything random; end keeps all that is computed, and is refused "
        "where something of it is random.",
    )
    memory_mib: int | Literal["auto"] = number_or(
        "auto", "Memory for examples in MiB; auto takes half of what is free."
    )
    splits: tuple[Split, ...] = splits_setting(
        ("train", "validation"),
        "Which data are cached: the training data, the validation data or both.",
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where input takes time in more than one epoch, and nothing is cached yet."""
        plan = costly_input(diagnosis)
        if plan is None or diagnosis.epochs < 2:
            return None
        if any(stages_of(plan, CacheStage)) or plan.source.origin == "pydataset":
            return None
        return {} if Prefix(plan.stages).computes else None

    def resolve(self, probe: Probe) -> Cache:
        """Decide where examples are kept, by what they need and what is free.

        :raises PluginRefused: if they were to be kept in memory and do not fit.
        """
        free = probe.available_memory_bytes()
        asked = self.memory_mib
        # what was given by name is what may be used, so it counts as half of what there is
        memory = free if asked == "auto" else int(asked * 2**20 / MEMORY_SHARE)
        storage, needed = self.storage, None
        if storage in ("auto", "memory"):
            needed = needed_bytes(probe, self.splits)
        if storage == "auto":
            storage = choose_storage(needed, memory, probe.available_disk_bytes())
        elif storage == "memory":
            limit = (
                (free, "of memory are free") if asked == "auto" else (asked * 2**20, "may be used")
            )
            if reason := too_large("the examples need", needed, *limit):
                raise PluginRefused(f'{reason}; set storage = "auto", "disk" or "partial"')
        mebibytes = max(1, int(MEMORY_SHARE * memory / 2**20))
        return attrs.evolve(self, storage=storage, memory_mib=mebibytes)

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        rewrite = self._kept(run, split, with_split_maps(plan))
        return rewrite if rewrite.done else attrs.evolve(rewrite, plan=plan)

    def _kept(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        found = maps_over_batches(plan)
        if found is None:
            return self._with_examples(run, split, plan)
        rows = self._with_rows(run, split, plan, found)
        if rows.done:
            return rows
        rewrite = self._with_examples(run, split, plan)
        if rewrite.done:
            return attrs.evolve(rewrite, done=f"{rewrite.done}; not kept: {rows.reason}")
        return attrs.evolve(rewrite, reason=f"{rewrite.reason}, and {rows.reason}")

    def _with_rows(
        self, run: RunContext, split: Split, plan: DataPlan, found: MapsOverBatches
    ) -> Rewrite:
        memory: float | None = self._budget(run, split)
        if self.storage in ("memory", "disk"):
            memory = None if self.storage == "memory" else 0
        on_disk = self.storage in ("disk", "disk-or-partial")
        folder = private_path(run, f"rows-{split}") if on_disk else None
        return with_cached_rows(plan, found, memory, folder, at_end=self.place == "end")

    def _with_examples(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        budget = self._budget(run, split)
        if self.storage == "partial":
            return with_partial_cache(plan, budget, self.place)
        on_disk = self.storage in ("disk", "disk-or-partial")
        path = private_path(run, f"cache-{split}") if on_disk else None
        rewrite = with_cache(plan, path, budget, self.place)
        needed, too_full = kept_bytes(rewrite), ""
        if path is not None:
            too_full = too_large_for_disk("the examples need about", needed, path.parent)
        if self.storage == "disk-or-partial" and (too_full or not rewrite.done):
            return with_partial_cache(plan, budget, self.place)
        if path is None and self.memory_mib != "auto" and (needed or 0) > self.memory_mib * 2**20:
            # what a map computes before it draws may be larger than what it makes in the end
            return with_partial_cache(plan, budget, self.place)
        if too_full:
            raise PluginRefused(f'{too_full}; set storage = "partial"')
        return attrs.evolve(rewrite, done=rewrite.done and f"{rewrite.done}, {about(needed)}")

    def _budget(self, run: RunContext, split: Split) -> float:
        return budget_bytes(self.memory_mib, MEMORY_SHARE, run.machine, split, self.splits)

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether a cache is in them."""
        found = effect(self, run, "Cache")
        if found.applied and run.epochs == 1:
            return Effect.not_applied("trained one epoch, so nothing was read back")
        missing = incomplete(self, run)
        return Effect.not_applied(missing) if found.applied and missing else found

    def by_hand(self) -> str:
        """The same in plain code."""
        if "partial" in self.storage:
            return "# what fits into memory is cached and the rest streamed: only tfopt does it"
        file = "" if self.storage != "disk" else '"cache-of-{}"'
        return "\n".join(
            [
                "# behind the last map that yields the same each time, before the shuffle; a map",
                "# that decodes and then draws at random is to be split in two before",
                *(f"{split} = {split}.cache({file.format(split)})" for split in self.splits),
            ]
        )
