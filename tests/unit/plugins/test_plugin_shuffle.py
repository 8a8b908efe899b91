"""The shuffle goes up to the source, and each worker reads a shard of its own from there."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.pipelines import assert_left_alone, kinds
from support.plugin_drive import FakeProbe
from tfopt_data.shard import Shard, with_shard, worker_of
from tfopt_data.shuffle import with_shuffle_up

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.plugins import PluginRefused


def twice(x):
    return x * 2


def numbers(count=30):
    return DataPlan.from_arrays(np.arange(count))


def decoded():
    return numbers().map(twice, deterministic=True)


def test_shuffle_of_decoded_examples_is_moved_to_the_source_and_takes_all():
    rewrite = with_shuffle_up(decoded().shuffle(8).batch(4))
    assert kinds(rewrite.plan) == ["source", "shuffle", "map_examples", "batch"]
    assert rewrite.done.startswith("shuffle: all examples, anew each epoch, before map_examples")


@pytest.mark.parametrize(("size", "buffer"), [("auto", None), ("all", None), (9, 9)])
def test_buffer_is_as_large_as_was_asked_for(size, buffer):
    [shuffle] = [
        s for s in with_shuffle_up(decoded().shuffle(8), size).plan.stages if s.kind == "shuffle"
    ]
    assert shuffle.buffer_size == buffer


def test_behind_a_source_that_streams_the_buffer_keeps_its_size():
    plan = DataPlan.from_generator(lambda: iter([1, 2])).map(twice, deterministic=True).shuffle(8)
    rewrite = with_shuffle_up(plan)
    assert kinds(rewrite.plan) == ["source", "shuffle", "map_examples"]
    assert rewrite.plan.stages[1].buffer_size == 8


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (numbers().batch(4), "does not shuffle"),
        (numbers().shuffle().map(twice), "stands at the source already"),
        (numbers().shuffle(30), "stands at the source already"),
        (decoded().cache().shuffle(), '"cache: in memory" before it must come first'),
        (decoded().shuffle(8).take(3), '"take: 3" behind it would choose other examples'),
        (numbers().map(twice, deterministic=False).shuffle(), "draws at random"),
    ],
)
def test_plan_is_unchanged_with_the_reason(plan, reason):
    assert_left_alone(plan, with_shuffle_up(plan), reason)


STEPS = [
    lambda plan: plan.map(twice),
    lambda plan: plan.filter(lambda x: x % 3 > 0),
    lambda plan: plan.take(11),
    lambda plan: plan.shuffle(4, seed=1),
    lambda plan: plan.repeat(2),
]


@pytest.mark.tensorflow
@few_examples(25)
@given(
    st.integers(1, 20),
    st.lists(st.sampled_from(STEPS), max_size=5),
    st.sampled_from(["auto", "all", 5]),
)
def test_random_plans_yield_the_same_examples_each_epoch(count, steps, size):
    plan = numbers(count)
    for step in steps:
        plan = step(plan)
    first = plan.find(type(numbers().shuffle().stages[1]))
    made_plan = with_shuffle_up(plan, size).plan
    if first is not None and any(s.kind == "take" for s in plan.stages[first:]):
        assert made_plan is plan  # which examples are taken depends on the order
        return
    made = lower(made_plan)
    for _ in range(2):
        assert sorted(map(int, made)) == sorted(map(int, lower(plan)))


PLAN = DataPlan.from_arrays(np.arange(10)).shuffle(seed=1).map(lambda x: x, deterministic=True)
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def config(task, index):
    told = {"cluster": CLUSTER, "task": {"type": task, "index": index}}
    return {"TF_CONFIG": json.dumps(told)}


def test_shard_stands_at_the_source_before_anything_is_shuffled_or_computed():
    plan = with_shard(PLAN, 3, 1).plan
    assert [stage.kind for stage in plan.stages] == ["source", "shard", "shuffle", "map_examples"]


def test_one_worker_reads_everything():
    assert_left_alone(PLAN, with_shard(PLAN, 1, 0), "one worker")


def test_more_workers_than_elements_are_refused():
    with pytest.raises(PluginRefused, match="10 elements, too few for 11 workers"):
        with_shard(PLAN, 11, 0)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"cluster": {"worker": ["a:1"]}}'])
def test_tf_config_that_does_not_say_is_refused(text):
    with pytest.raises(PluginRefused, match='set "count" and "index"'):
        worker_of({"TF_CONFIG": text})


def test_resolve_takes_what_tf_config_says_and_refuses_what_contradicts(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config("worker", 1)["TF_CONFIG"])
    resolved = Shard().resolve(FakeProbe())
    assert (resolved.count, resolved.index) == (3, 2)
    with pytest.raises(PluginRefused, match="there are 2 shards, so there is none of index 2"):
        Shard(count=2).resolve(FakeProbe())


@pytest.mark.tensorflow
@few_examples(15)
@given(st.integers(1, 20), st.data())
def test_all_shards_together_hold_every_element_once(count, data):
    workers = data.draw(st.integers(1, count))
    plan = DataPlan.from_arrays(np.arange(count)).map(lambda x: x)
    read = [int(x) for i in range(workers) for x in lower(with_shard(plan, workers, i).plan)]
    assert sorted(read) == list(range(count))
