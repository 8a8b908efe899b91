"""The memory that a plan announces: what stages hold once they are full."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.data.sampling import TENSOR_OVERHEAD_BYTES
from tfopt_core.records.dry_build import (
    HeldBytes,
    MemoryPlan,
    StageLine,
    held_by,
)

EXAMPLE = StageLine(
    kind="source", description="", elements=100, element_bytes=1_000.0, tensors=2, repeats=True
)
# What a stage says of itself, by its kind.
SAID: dict[str, dict[str, object]] = {
    "cache": {"holds": None, "hands_on": True},
    "shuffle": {"holds": None, "hands_on": True},
    "options": {"hands_on": True},
}
EACH = 1_000 + 2 * TENSOR_OVERHEAD_BYTES


def stage(kind: str, **changes: object) -> StageLine:
    return attrs.evolve(EXAMPLE, kind=kind, **{**SAID.get(kind, {}), **changes})


def held(*stages: StageLine) -> list[tuple[str, float | None]]:
    return [(item.stage, item.bytes) for item in held_by("train", stages)]


CACHE, SHUFFLE, WHOLE = stage("cache"), stage("shuffle"), 100 * EACH
ON_DISK = stage("cache", holds=0, hands_on=False)
PARTS = ((EXAMPLE, stage("cache", elements=60)), (EXAMPLE,))


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((EXAMPLE, CACHE), [("cache", WHOLE)]),
        ((EXAMPLE, ON_DISK), []),
        # never more than there is
        ((EXAMPLE, stage("shuffle", holds=10)), [("shuffle", 10 * EACH)]),
        ((EXAMPLE, stage("shuffle", holds=5_000)), [("shuffle", WHOLE)]),
        ((EXAMPLE, SHUFFLE), [("shuffle", WHOLE)]),
        # a shuffle behind a cache in memory holds the same tensors, unless they are made anew
        ((EXAMPLE, CACHE, SHUFFLE), [("cache", WHOLE)]),
        ((CACHE, stage("options"), SHUFFLE), [("cache", WHOLE)]),
        ((CACHE, stage("map_examples"), SHUFFLE), [("cache", WHOLE), ("shuffle", WHOLE)]),
        ((ON_DISK, SHUFFLE), [("shuffle", WHOLE)]),
        ((stage("source", parts=PARTS),), [("cache", 60 * EACH)]),
        ((EXAMPLE, stage("map_examples", kept_bytes=5e6)), [("kept results", 5e6)]),
    ],
)
def test_what_stages_hold_once_they_are_full(
    stages: tuple[StageLine, ...], expected: list[tuple[str, float]]
) -> None:
    assert held(*stages) == expected


def test_the_total_is_unknown_where_something_held_is() -> None:
    assert held(stage("cache", elements=None)) == [("cache", None)]
    assert MemoryPlan(1, (HeldBytes("train", "cache", None),)).total_bytes is None


@given(st.lists(st.floats(0, 1e12), max_size=5), st.integers(0, 10**12))
def test_the_total_is_the_process_and_what_is_held(sizes: list[float], process: int) -> None:
    plan = MemoryPlan(process, tuple(HeldBytes("train", "cache", size) for size in sizes))
    assert plan.total_bytes == pytest.approx(process + sum(sizes))
