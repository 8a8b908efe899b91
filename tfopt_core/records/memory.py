"""The memory that a run will need: its process and its input pipelines. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tfopt_core.data.sampling import TENSOR_OVERHEAD_BYTES


@attrs.frozen(kw_only=True)
class StageLine:
    """A stage of a data plan as `tfopt plan` shows it.

    `elements` and `element_bytes` are of what it yields, None where unknown; `tensors` is how
    many tensors an element has. `random_ops` say why it yields something else each time. `holds`
    and `hands_on` are those of the stage; `kept_bytes` is what a map that remembers its results
    comes to hold.
    """

    kind: str
    description: str
    elements: int | None
    element_bytes: float | None
    tensors: int
    repeats: bool
    random_ops: tuple[str, ...] = ()
    holds: int | None = 0
    hands_on: bool = False
    kept_bytes: float = 0.0
    parts: tuple[tuple[StageLine, ...], ...] = ()


@attrs.frozen
class HeldBytes:
    """What one stage holds once it is full; `bytes` is None where that is unknown."""

    split: str
    stage: str
    bytes: float | None


@attrs.frozen
class MemoryPlan:
    """The resident memory that a run is expected to reach.

    `process_bytes` is what a process took that made a few steps on one batch.
    """

    process_bytes: int
    held: tuple[HeldBytes, ...]

    @property
    def total_bytes(self) -> float | None:
        """All of it, None where the size of something held is unknown."""
        if any(item.bytes is None for item in self.held):
            return None
        return self.process_bytes + sum(item.bytes or 0.0 for item in self.held)


def held_by(split: str, stages: Sequence[StageLine]) -> Iterator[HeldBytes]:
    """Yield what caches in memory and shuffle buffers hold when they are full.

    A shuffle right behind a cache in memory holds the very same tensors, so it adds nothing.
    """
    shared = False  # whether a stage before holds them all
    for stage in stages:
        for part in stage.parts:
            yield from held_by(split, part)
        if stage.kept_bytes:
            yield HeldBytes(split, "kept results", stage.kept_bytes)
        shared = shared and stage.hands_on
        if stage.holds != 0 and not shared:
            yield HeldBytes(split, stage.kind, _bytes(_least(stage), stage))
            shared = stage.holds is None


def _least(stage: StageLine) -> int | None:
    known = [count for count in (stage.holds, stage.elements) if count is not None]
    return min(known) if known else None


def _bytes(count: int | None, stage: StageLine) -> float | None:
    if count is None or stage.element_bytes is None:
        return None
    return count * (stage.element_bytes + stage.tensors * TENSOR_OVERHEAD_BYTES)
