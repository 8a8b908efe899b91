"""The shuffle goes up to the source, and no example is lost on the way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.pipelines import kinds
from support.plugin_drive import Driven
from tfopt_data.shuffle import Shuffle, with_shuffle_up

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower


def twice(x: Any) -> Any:
    return x * 2


def numbers(count: int = 30) -> DataPlan:
    return DataPlan.from_arrays(np.arange(count))


def decoded() -> DataPlan:
    return numbers().map(twice, deterministic=True)


def test_shuffle_of_decoded_examples_is_moved_to_the_source_and_takes_all() -> None:
    rewrite = with_shuffle_up(decoded().shuffle(8).batch(4))
    assert kinds(rewrite.plan) == ["source", "shuffle", "map_examples", "batch"]
    assert rewrite.done.startswith("shuffle: all examples, anew each epoch, before map_examples")


@pytest.mark.parametrize(("size", "buffer"), [("auto", None), ("all", None), (9, 9)])
def test_buffer_is_as_large_as_was_asked_for(size: Any, buffer: int | None) -> None:
    [shuffle] = [
        s for s in with_shuffle_up(decoded().shuffle(8), size).plan.stages if s.kind == "shuffle"
    ]
    assert shuffle.buffer_size == buffer


def test_behind_a_source_that_streams_the_buffer_keeps_its_size() -> None:
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
def test_plan_is_unchanged_with_the_reason(plan: DataPlan, reason: str) -> None:
    rewrite = with_shuffle_up(plan)
    assert rewrite.plan is plan
    assert reason in rewrite.reason


@pytest.mark.tensorflow
def test_effect_reads_the_shuffle_back(train: Callable[..., Driven]) -> None:
    x = np.random.default_rng(0).random((64, 4), dtype="float32")
    plan = DataPlan.from_arrays(x, x[:, :1]).map(lambda a, b: (a * 2, b)).shuffle(8).batch(16)
    effect = train(Shuffle(), plan=plan).effect
    assert effect.applied
    assert effect.detail.startswith("train: shuffle: all examples")


STEPS: list[Callable[[DataPlan], DataPlan]] = [
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
