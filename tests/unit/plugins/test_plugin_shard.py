"""Shards: each worker reads its own part, and together they read everything once."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.plugin_drive import Driven, FakeProbe
from tfopt_data.shard import Shard, with_shard, worker_of

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused

PLAN = DataPlan.from_arrays(np.arange(10)).shuffle(seed=1).map(lambda x: x, deterministic=True)
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def config(task: str, index: int) -> dict[str, str]:
    told = {"cluster": CLUSTER, "task": {"type": task, "index": index}}
    return {"TF_CONFIG": json.dumps(told)}


def test_shard_stands_at_the_source_before_anything_is_shuffled_or_computed() -> None:
    plan = with_shard(PLAN, 3, 1).plan
    assert [stage.kind for stage in plan.stages] == ["source", "shard", "shuffle", "map_examples"]


def test_one_worker_reads_everything() -> None:
    rewrite = with_shard(PLAN, 1, 0)
    assert rewrite.plan is PLAN
    assert "one worker" in rewrite.reason


def test_more_workers_than_elements_are_refused() -> None:
    with pytest.raises(PluginRefused, match="10 elements, too few for 11 workers"):
        with_shard(PLAN, 11, 0)


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, (1, 0)),
        (config("chief", 0), (3, 0)),
        (config("worker", 0), (3, 1)),
        (config("worker", 1), (3, 2)),
    ],
)
def test_worker_is_read_from_tf_config_the_chief_first(environment, place):
    assert worker_of(environment) == place


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"cluster": {"worker": ["a:1"]}}'])
def test_tf_config_that_does_not_say_is_refused(text: str) -> None:
    with pytest.raises(PluginRefused, match='set "count" and "index"'):
        worker_of({"TF_CONFIG": text})


def test_resolve_takes_what_tf_config_says_and_refuses_what_contradicts(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config("worker", 1)["TF_CONFIG"])
    resolved = Shard().resolve(FakeProbe())
    assert (resolved.count, resolved.index) == (3, 2)
    with pytest.raises(PluginRefused, match="there are 2 shards, so there is none of index 2"):
        Shard(count=2).resolve(FakeProbe())


@pytest.mark.tensorflow
def test_effect_reads_the_shard_back(train: Callable[..., Driven]) -> None:
    effect = train(Shard(count=2, index=1)).effect
    assert effect.applied
    assert effect.detail == "train: shard: 2 of 2"


@pytest.mark.tensorflow
@few_examples(15)
@given(st.integers(1, 20), st.data())
def test_all_shards_together_hold_every_element_once(count: int, data: Any) -> None:
    workers = data.draw(st.integers(1, count))
    plan = DataPlan.from_arrays(np.arange(count)).map(lambda x: x)
    read = [int(x) for i in range(workers) for x in lower(with_shard(plan, workers, i).plan)]
    assert sorted(read) == list(range(count))
