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
    **{kind: {"hands_on": True} for kind in ("options", "repeat", "take")},
}
EACH = 1_000 + 2 * TENSOR_OVERHEAD_BYTES


def stage(kind: str, **changes: object) -> StageLine:
    return attrs.evolve(EXAMPLE, kind=kind, **{**SAID.get(kind, {}), **changes})


def held(*stages: StageLine) -> list[tuple[str, float | None]]:
    return [(item.stage, item.bytes) for item in held_by("train", stages)]


def test_a_cache_in_memory_holds_every_element_and_one_on_disk_none() -> None:
    assert held(EXAMPLE, stage("cache")) == [("cache", 100 * EACH)]
    assert held(EXAMPLE, stage("cache", holds=0, hands_on=False)) == []


def test_a_shuffle_holds_its_buffer_but_never_more_than_there_is() -> None:
    assert held(EXAMPLE, stage("shuffle", holds=10)) == [("shuffle", 10 * EACH)]
    assert held(EXAMPLE, stage("shuffle", holds=5_000)) == [("shuffle", 100 * EACH)]
    assert held(EXAMPLE, stage("shuffle", holds=None)) == [("shuffle", 100 * EACH)]


def test_a_shuffle_behind_a_cache_in_memory_holds_the_same_tensors() -> None:
    assert held(EXAMPLE, stage("cache"), stage("shuffle")) == [("cache", 100 * EACH)]


@pytest.mark.parametrize("between", ["options", "repeat", "take"])
def test_stages_that_pass_elements_on_keep_them_shared(between: str) -> None:
    assert held(stage("cache"), stage(between), stage("shuffle")) == [("cache", 100 * EACH)]


def test_a_shuffle_of_what_a_map_made_of_cached_elements_holds_them_anew() -> None:
    told = held(stage("cache"), stage("map_examples"), stage("shuffle"))
    assert told == [("cache", 100 * EACH), ("shuffle", 100 * EACH)]


def test_a_shuffle_behind_a_cache_on_disk_holds_its_elements() -> None:
    assert held(stage("cache", holds=0, hands_on=False), stage("shuffle")) == [
        ("shuffle", 100 * EACH)
    ]


def test_the_parts_of_a_concatenation_count() -> None:
    cached = (EXAMPLE, stage("cache", elements=60))
    source = stage("source", parts=(cached, (EXAMPLE,)))
    assert held(source) == [("cache", 60 * EACH)]


def test_the_total_is_unknown_where_something_held_is() -> None:
    assert held(stage("cache", elements=None)) == [("cache", None)]
    assert MemoryPlan(1, (HeldBytes("train", "cache", None),)).total_bytes is None


@given(st.lists(st.floats(0, 1e12), max_size=5), st.integers(0, 10**12))
def test_the_total_is_the_process_and_what_is_held(sizes: list[float], process: int) -> None:
    plan = MemoryPlan(process, tuple(HeldBytes("train", "cache", size) for size in sizes))
    assert plan.total_bytes == pytest.approx(process + sum(sizes))


def test_results_that_a_map_keeps_count() -> None:
    assert held(EXAMPLE, stage("map_examples", kept_bytes=5e6)) == [("kept results", 5e6)]
