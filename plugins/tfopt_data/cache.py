"""The cache: keep what the deterministic part of an input pipeline computes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
from attrs import field, validators

from tfopt_core import DataPlan, Effect, PluginRefused, Probe, RunContext, hookimpl
from tfopt_core.data import Cache as CacheStage
from tfopt_core.data import Shuffle, Source, Stage, Take, dissect
from tfopt_core.data.lower import lower_stages
from tfopt_data.prefix import deterministic_prefix
from tfopt_data.rewrite import Rewrite, effect, remember

# The rest is for the model, its gradients and the shuffle buffer.
MEMORY_SHARE = 0.5

Split = Literal["train", "validation"]


def with_cache(
    plan: DataPlan, path: Path | None = None, memory_bytes: float | None = None
) -> Rewrite:
    """The plan with a cache after its longest deterministic prefix.

    Deterministic maps that stand behind a shuffle or repeat are moved before it, so the elements
    stay the same and each epoch is still shuffled anew. Nothing random is ever kept.

    :param path: the file to keep the elements in; None keeps them in memory.
    :param memory_bytes: what a shuffle behind a cache on disk may hold; None for no limit.
    """
    refusal = _refusal(plan)
    if refusal:
        return Rewrite(plan, reason=refusal)
    prefix = deterministic_prefix(plan)
    if not prefix.computes:
        return Rewrite(plan, reason=_nothing_saved(prefix.stopped))
    rest = tuple(stage for stage in plan.stages if stage not in prefix.head)
    if any(isinstance(stage, Take) for stage in rest):
        return Rewrite(plan, reason="a take stage stops reading before the cache is full")
    if path is not None and memory_bytes is not None:
        heavy = _heavy_shuffle(prefix.head, prefix.passed, memory_bytes)
        if heavy:
            return Rewrite(plan, reason=heavy)
    done = f"{'in memory' if path is None else 'on disk'}, after {prefix.head[-1].describe()}"
    if prefix.passed:
        done += f", moved before {prefix.passed[0].describe()}"
    return Rewrite(DataPlan((*prefix.head, CacheStage(path=path), *rest)), done=done)


def choose_storage(needed_bytes: float | None, available_bytes: int) -> Literal["memory", "disk"]:
    """Memory where the examples take at most half of what is free; disk where nobody knows."""
    if needed_bytes is not None and needed_bytes <= MEMORY_SHARE * available_bytes:
        return "memory"
    return "disk"


@attrs.frozen(kw_only=True, eq=False)
class Cache:
    """Keeps decoded examples, so that they are read and computed in the first epoch only.

    What it does: puts a tf.data cache behind the longest part of the input pipeline that yields
    the same each time. Deterministic maps behind a shuffle are moved before it; random
    augmentation is never kept.

    Why it helps: reading, decoding and resizing are paid once instead of once an epoch.

    When it does not: for arrays that nothing is computed from, for one epoch, and where the
    training, not the input, is the bottleneck. A cache on disk can be slower than none.

    Mixes with: prefetch and parallel-map; with the latter the first epoch is faster too. A shuffle
    over all examples behind a cache on disk would hold them in memory, so it is left alone.

    Reference: https://www.tensorflow.org/guide/data_performance#caching
    """

    targets: ClassVar[tuple[str, ...]] = ("input",)
    role: ClassVar[str] = "optimization"
    model_change: ClassVar[str] = "none"
    requires: ClassVar[tuple[str, ...]] = ()
    conflicts: ClassVar[tuple[str, ...]] = ()
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    storage: Literal["auto", "memory", "disk"] = field(
        default="auto",
        validator=validators.in_(("auto", "memory", "disk")),
        metadata={
            "help": "Where examples are kept; auto takes memory if they fit into half of what is "
            "free, else the run's folder on disk."
        },
    )
    splits: tuple[Split, ...] = field(
        default=("train", "validation"),
        converter=tuple,
        validator=[
            validators.min_len(1),
            validators.deep_iterable(validators.in_(("train", "validation"))),
        ],
        metadata={"help": "Which data are cached: the training data, the validation data or both."},
    )

    def math(self) -> Literal["exact"]:
        """The elements and their order are the same."""
        return "exact"

    def resolve(self, probe: Probe) -> Cache:
        """Decide between memory and disk by what the examples need and what is free.

        :raises PluginRefused: if they were to be kept in memory and do not fit.
        """
        if self.storage == "disk":
            return self
        needed = _needed_bytes(list(_sizes(probe, self.splits)))
        free = probe.available_memory_bytes()
        if self.storage == "auto":
            return attrs.evolve(self, storage=choose_storage(needed, free))
        if needed is not None and needed > free:
            raise PluginRefused(
                f"the examples need {_gib(needed)} and {_gib(free)} of memory are free; set "
                'storage = "disk"'
            )
        return self

    @hookimpl(wrapper=True)
    def build_dataset(self, run: RunContext, split: Split) -> Generator[None, DataPlan, DataPlan]:
        """Cache the split if it is among `splits`."""
        plan = yield
        if split not in self.splits:
            return remember(run, split, Rewrite(plan, reason='not among "splits"'))
        path = _private_path(run, split) if self.storage == "disk" else None
        limit = MEMORY_SHARE * run.machine.memory_bytes
        return remember(run, split, with_cache(plan, path, limit))

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether a cache is in them."""
        found = effect(run, "Cache")
        if found.applied and run.epochs == 1:
            return Effect.not_applied("trained one epoch, so nothing was read back")
        return found


def _refusal(plan: DataPlan) -> str:
    """Why no cache may be put anywhere into this plan, "" if one may."""
    source = plan.source
    if source.origin == "pydataset":
        return "a PyDataset is read by Keras itself, not by tf.data"
    if plan.find(CacheStage) is not None:
        return "the workload caches its data itself"
    if source.deterministic:
        return ""
    if source.origin == "dataset" and dissect.has_stage(source.value, "Cache"):
        return "the workload's data set has a cache of its own"
    return (
        f"the {source.origin} is opaque and not known to yield the same examples each time; if it "
        f"does, make it with DataPlan.from_{source.origin}(..., deterministic=True)"
    )


def _nothing_saved(stopped: str) -> str:
    if stopped:
        return f"nothing before it is worth keeping: {stopped}"
    return "the data are arrays in memory, and nothing is computed from them"


def _heavy_shuffle(head: Sequence[Stage], passed: Sequence[Stage], memory_bytes: float) -> str:
    """Why a shuffle of computed examples would undo a cache on disk, "" if it would not."""
    source = head[0]
    assert isinstance(source, Source)
    for stage in passed:
        if not isinstance(stage, Shuffle):
            continue
        count = source.count if stage.buffer_size is None else stage.buffer_size
        if count is None:
            return "the shuffle behind it would hold an unknown number of computed examples"
        held = count * _first_bytes(head)
        if held > memory_bytes:
            return (
                f"the shuffle behind it would hold {_gib(held)} of computed examples in memory, "
                f"and {_gib(memory_bytes)} may be used; give the shuffle a smaller buffer"
            )
    return ""


def _first_bytes(stages: Sequence[Stage]) -> int:
    """The size of the first element that these stages yield, in bytes."""
    import tensorflow as tf

    for element in lower_stages(stages).take(1):
        return sum(_bytes(leaf) for leaf in tf.nest.flatten(element, expand_composites=True))
    return 0


def _bytes(tensor: Any) -> int:
    array = tensor.numpy()
    if isinstance(array, bytes):
        return len(array)
    return sum(map(len, array.flat)) if array.dtype == object else int(array.nbytes)


def _sizes(probe: Probe, splits: Sequence[str]) -> Iterator[tuple[float, int | None]]:
    """Bytes of an example and the number of examples, for the splits that the workload has."""
    for split in splits:
        try:
            yield probe.element_bytes(split)
        except ValueError:
            if split == "train":
                raise


def _needed_bytes(sizes: Sequence[tuple[float, int | None]]) -> float | None:
    """All examples of all splits together; None where a number is unknown."""
    total = 0.0
    for element_bytes, count in sizes:
        if count is None:
            return None
        total += element_bytes * count
    return total


def _private_path(run: RunContext, split: str) -> Path:
    """A file for this build alone: a rebuilt plan must not read what another one kept."""
    run.state["builds"] = build = run.state.get("builds", 0) + 1
    folder = run.folder / f"cache-{split}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"fit-{run.fit_index}-build-{build}"


def _gib(size: float) -> str:
    return f"{size / 2**30:.2g} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
