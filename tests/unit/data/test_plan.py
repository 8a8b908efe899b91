"""The data plan as data: no TensorFlow."""

import pytest

from tfopt_core.data import Batch, Cache, DataPlan, MapBatches, MapExamples, Prefetch, Shuffle


def double(x):
    return 2 * x


PLAN = DataPlan.from_arrays([1, 2, 3]).map(double).shuffle(seed=1).batch(2)


def test_a_plan_never_changes():
    stages = PLAN.stages
    PLAN.insert(1, Cache())
    PLAN.prefetch()
    assert PLAN.stages is stages


def test_a_map_after_a_batch_is_a_map_of_batches():
    assert isinstance(PLAN.stages[1], MapExamples)
    assert isinstance(PLAN.map(double).stages[-1], MapBatches)


def test_prefetch_is_last_wherever_it_was_put():
    plan = DataPlan.from_arrays([1]).prefetch(2).map(double).prefetch(3).batch(1)
    kinds = [type(stage) for stage in plan.lowering_order()]
    assert kinds[-1] is Prefetch
    assert kinds.count(Prefetch) == 1
    assert plan.describe()[-1] == "prefetch: 3"


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"different lengths: \[1, 2\]"):
        DataPlan.from_arrays([1, 2], [1])


def test_an_iterator_is_refused_since_it_can_be_read_only_once():
    with pytest.raises(TypeError, match="give the function that makes it"):
        DataPlan.from_generator(iter([1]))


def test_nothing_stands_before_the_source():
    with pytest.raises(ValueError, match="before the source"):
        PLAN.insert(0, Cache())


def test_a_change_is_described_stage_by_stage():
    cached = PLAN.insert(2, Cache())
    assert cached.describe_change(PLAN) == ("cache: in memory, after map_examples",)
    assert PLAN.describe_change(cached) == ("without cache: in memory",)
    wider = PLAN.replace(3, Batch(size=8))
    assert wider.describe_change(PLAN) == ("batch: 2 -> batch: 8",)
    assert PLAN.describe_change(PLAN) == ()


def test_a_plan_describes_itself_in_the_order_of_its_stages():
    assert PLAN.describe() == (
        "source: arrays, 3 examples",
        "map_examples: double (sequential)",
        "shuffle: all examples, anew each epoch",
        "batch: 2",
    )


def test_a_reshuffling_shuffle_is_not_deterministic_and_a_seeded_still_one_is():
    assert not Shuffle(seed=1).deterministic
    assert not Shuffle(reshuffle=False).deterministic
    assert Shuffle(seed=1, reshuffle=False).deterministic
