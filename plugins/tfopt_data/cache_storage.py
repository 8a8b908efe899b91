"""Where a cache may keep its elements: what they need, and what memory and disk have left."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tfopt_core.data import Cache, element_spec, lower_plan, overhead_bytes, tensor_bytes
from tfopt_core.plugins import DataPlan, Machine, Probe, RunContext
from tfopt_core.toolkit import size_in_words, tf
from tfopt_data.rewrite import Rewrite, stages_of

# The rest is for the model, its gradients and the shuffle buffer.
MEMORY_SHARE = 0.5
# Rows are joined and made tensors: three times their size for a moment.
ROWS_SHARE = 0.25
# Of what is kept; validation data are the smaller part, and mostly fit whole into theirs.
TRAIN_SHARE = 0.75
# A disk is never filled to the last byte: others write to it too.
DISK_SHARE = 0.9
# So many elements are computed to learn their size where their shapes do not tell.
SAMPLE_ELEMENTS = 16

Kept = Literal["memory", "disk-or-partial", "partial"]


def choose_storage(needed_bytes: float | None, available_bytes: int, disk_bytes: int) -> Kept:
    """Memory where the examples take at most half of what is free, else disk where it has room
    and no shuffle stands against it, else as much as fits into memory.

    :param needed_bytes: None where nobody knows: then the disk is taken if it has at least as
        much room as memory has.
    """
    if needed_bytes is None:
        return "disk-or-partial" if DISK_SHARE * disk_bytes >= available_bytes else "partial"
    if needed_bytes <= MEMORY_SHARE * available_bytes:
        return "memory"
    return "disk-or-partial" if needed_bytes <= DISK_SHARE * disk_bytes else "partial"


def needed_bytes(probe: Probe, splits: Sequence[str]) -> float | None:
    """What all examples of the splits that the workload has take in memory; None where their number
    is unknown."""
    total = 0.0
    for split in splits:
        try:
            example_bytes, count = probe.held_bytes(split)
        except ValueError:
            if split == "train":
                raise
            continue
        if count is None:
            return None
        total += example_bytes * count
    return total


def budget_bytes(
    memory_mib: int | str, share: float, machine: Machine, split: str, splits: Sequence[str]
) -> float:
    """The bytes that a split may keep; the training data get most of them.

    :param share: of the machine's memory, for "auto": a dry use of the hook, without a probe.
    """
    total = memory_mib * 2**20 if isinstance(memory_mib, int) else share * machine.memory_bytes
    if len(splits) == 1:
        return total
    return total * (TRAIN_SHARE if split == "train" else 1 - TRAIN_SHARE)


def free_disk_bytes(folder: Path) -> int:
    """What the file system of a folder has left; the folder need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def element_bytes(plan: DataPlan) -> float:
    """Bytes of an element that the plan yields: from its shapes, else the mean of a sample."""
    leaves = tf.nest.flatten(element_spec(plan))
    if all(_tells_its_size(leaf) for leaf in leaves):
        return float(sum(math.prod(leaf.shape) * leaf.dtype.size for leaf in leaves))
    sample = lower_plan(plan).take(SAMPLE_ELEMENTS)
    found = [sum(map(tensor_bytes, tf.nest.flatten(element))) for element in sample]
    return math.fsum(found) / len(found) if found else 0.0


def kept_bytes(rewrite: Rewrite) -> float | None:
    """What the cache of a rewritten plan will hold, None where the number is unknown."""
    place = rewrite.plan.find(Cache) if rewrite.done else None
    if place is None:
        return None
    cache, kept = rewrite.plan.stages[place], rewrite.plan.upto(place)
    assert isinstance(cache, Cache)
    if kept.cardinality is None:
        return None
    beside = overhead_bytes(kept) if cache.path is None else 0
    return kept.cardinality * (element_bytes(kept) + beside)


def too_large(what: str, needed: float | None, room: float, where: str, share: float = 1.0) -> str:
    """Return why so many bytes do not fit, "" if they do or nobody knows how many they are.

    :param what: `the rows need`; and `where` the room is, `of memory may be used`.
    :param share: of the room that may be taken.
    """
    if needed is None or needed <= share * room:
        return ""
    return f"{what} {size_in_words(needed)} and {size_in_words(room)} {where}"


def too_large_for_disk(what: str, needed: float | None, folder: Path) -> str:
    """Return why so many bytes do not fit on the disk of a folder, see `too_large`."""
    where = f"are free on the disk of {folder}"
    return too_large(what, needed, free_disk_bytes(folder), where, DISK_SHARE)


def about(needed: float | None) -> str:
    """Return how many bytes are kept, in words."""
    return "of unknown size" if needed is None else f"about {size_in_words(needed)}"


def private_path(run: RunContext, name: str) -> Path:
    """Return a file or folder for this build alone, which must not read what another one kept.

    :param name: of the folder in which it lies, which is made.
    """
    folder = run.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    build = 1
    # another training of this process may have been here (a replay builds twice)
    while (path := folder / f"fit-{run.fit_index}-build-{build}").exists() or any(
        folder.glob(f"{path.name}[._]*")
    ):
        build += 1
    return path


def incomplete(plugin: Any, run: RunContext) -> str:
    """Return which cache on disk of a plugin was never completed, "" if all were.

    A small cache is written when its last element was read, and if that fails, a training that
    takes no element more than it needs is not told: it computes all of them again each epoch.
    """
    for split, rewrite in run.state_of(plugin).get("rewrites", {}).items():
        for stage in stages_of(rewrite.plan, Cache):
            path = stage.path
            if path is not None and not path.with_name(f"{path.name}.index").exists():
                free = size_in_words(free_disk_bytes(path.parent))
                return f"{split}: the cache on disk was never completed; {free} are free there"
    return ""


def _tells_its_size(leaf: Any) -> bool:
    known = isinstance(leaf, tf.TensorSpec) and leaf.shape.is_fully_defined()
    return known and leaf.dtype not in (tf.string, tf.variant)
