"""Where a cache may keep its elements: what they need, and what memory and disk have left."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from tfopt_core import DataPlan, Probe, RunContext
from tfopt_core.data import sampling
from tfopt_core.data.lower import element_spec, lower_plan
from tfopt_data.rewrite import size_in_words

# The rest is for the model, its gradients and the shuffle buffer.
MEMORY_SHARE = 0.5
# A disk is never filled to the last byte: others write to it too.
DISK_SHARE = 0.9
# So many elements are computed to learn their size where their shapes do not tell.
SAMPLE_ELEMENTS = 16

Kept = Literal["memory", "disk", "partial"]


def choose_storage(needed_bytes: float | None, available_bytes: int, disk_bytes: int) -> Kept:
    """Memory where the examples take at most half of what is free, else disk where it has room,
    else as much as fits into memory.

    :param needed_bytes: None where nobody knows: then the disk is taken if it has at least as
        much room as memory has.
    """
    if needed_bytes is None:
        return "disk" if DISK_SHARE * disk_bytes >= available_bytes else "partial"
    if needed_bytes <= MEMORY_SHARE * available_bytes:
        return "memory"
    return "disk" if needed_bytes <= DISK_SHARE * disk_bytes else "partial"


def sizes(probe: Probe, splits: Sequence[str]) -> Iterator[tuple[float, int | None]]:
    """Bytes of an example and the number of examples, for the splits that the workload has."""
    for split in splits:
        try:
            yield probe.element_bytes(split)
        except ValueError:
            if split == "train":
                raise


def needed_bytes(sizes: Sequence[tuple[float, int | None]]) -> float | None:
    """All examples of all splits together; None where a number is unknown."""
    total = 0.0
    for element_bytes, count in sizes:
        if count is None:
            return None
        total += element_bytes * count
    return total


def free_disk_bytes(folder: Path) -> int:
    """What the file system of a folder has left; the folder need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def element_bytes(plan: DataPlan) -> float:
    """Bytes of an element that the plan yields: from its shapes, else the mean of a sample."""
    import tensorflow as tf

    leaves = tf.nest.flatten(element_spec(plan))
    if all(_tells_its_size(leaf) for leaf in leaves):
        return sum(math.prod(leaf.shape) * leaf.dtype.size for leaf in leaves)
    sample = lower_plan(plan).take(SAMPLE_ELEMENTS)
    found = [sampling.element_bytes(element) for element in sample]
    return math.fsum(found) / len(found) if found else 0.0


def kept_bytes(plan: DataPlan) -> float | None:
    """Bytes of all elements that the plan yields, None where their number is unknown."""
    count = plan.cardinality
    return None if count is None else count * element_bytes(plan)


def private_path(run: RunContext, split: str) -> Path:
    """A file for this build alone: a rebuilt plan must not read what another one kept."""
    folder = run.folder / f"cache-{split}"
    folder.mkdir(parents=True, exist_ok=True)
    build = run.state.get("builds", 0) + 1
    # another training of this process may have been here (a replay builds twice)
    while any(folder.glob(f"fit-{run.fit_index}-build-{build}[._]*")):
        build += 1
    run.state["builds"] = build
    path = folder / f"fit-{run.fit_index}-build-{build}"
    run.state.setdefault("paths", {})[split] = path
    return path


def incomplete(run: RunContext) -> str:
    """Which cache on disk was never completed, "" if all were.

    A small cache is written when its last element was read, and if that fails, a training that
    takes no element more than it needs is not told: it computes all of them again each epoch.
    """
    for split, path in run.state.get("paths", {}).items():
        if run.state["rewrites"][split].done and not path.with_name(f"{path.name}.index").exists():
            free = size_in_words(free_disk_bytes(path.parent))
            return f"{split}: the cache on disk was never completed; {free} are free there"
    return ""


def _tells_its_size(leaf: Any) -> bool:
    import tensorflow as tf

    known = isinstance(leaf, tf.TensorSpec) and leaf.shape.is_fully_defined()
    return known and leaf.dtype not in (tf.string, tf.variant)
