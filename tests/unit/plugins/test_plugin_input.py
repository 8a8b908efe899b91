"""Prefetch, parallel maps, and what confirms a rewrite below data that hide it."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import tf
from support.plugin_drive import CPU, Driven, machine_with
from tfopt_data.batch import Batch
from tfopt_data.cache import Cache
from tfopt_data.data_service import with_service
from tfopt_data.interleave import Interleave
from tfopt_data.parallel_map import ParallelMap, with_parallel_maps
from tfopt_data.prefetch import Prefetch, with_prefetch
from tfopt_data.prefetch_to_device import PrefetchToDevice, with_prefetch_to_device
from tfopt_data.shuffle import Shuffle
from tfopt_data.vectorize_map import VectorizeMap

from tfopt_core import DataPlan
from tfopt_core.data import Resident
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower
from tfopt_core.plugins import Diagnosis
from tfopt_core.testing import make_run, stack_of


def twice(x: Any) -> Any:
    return x * 2


def test_prefetch_is_put_at_the_end() -> None:
    rewrite = with_prefetch(DataPlan.from_arrays(np.arange(4)).batch(2), 3)
    assert rewrite.plan.describe()[-1] == "prefetch: 3"


@pytest.mark.tensorflow
def test_data_set_that_ends_with_a_prefetch_is_left_alone() -> None:
    plan = DataPlan.from_dataset(tf.data.Dataset.range(4).batch(2).prefetch(1))
    rewrite = with_prefetch(plan)
    assert rewrite.plan is plan
    assert "the workload has its own (prefetch: 1)" in rewrite.reason
    assert with_prefetch(plan.take(1)).done


@pytest.mark.tensorflow
@pytest.mark.parametrize(("calls", "ordered"), [("auto", True), (4, True), (4, False)])
def test_parallel_map_keeps_the_elements(calls: Any, ordered: bool) -> None:
    plan = DataPlan.from_arrays(np.arange(50)).map(twice)
    parallel = with_parallel_maps(plan, calls, ordered).plan
    elements = [int(element) for element in lower(parallel)]
    wanted = list(range(0, 100, 2))
    assert (elements if ordered else sorted(elements)) == wanted


def test_parallel_map_in_any_order_leaves_what_a_take_chooses_from() -> None:
    plan = DataPlan.from_arrays(np.arange(9)).map(lambda x: x + 1).take(3)
    rewrite = with_parallel_maps(plan, 2, ordered=False)
    assert rewrite.plan is plan
    assert '"take: 3" behind it would choose other examples' in rewrite.reason
    assert with_parallel_maps(plan, 2).done


@pytest.mark.tensorflow
def test_a_map_that_draws_stays_sequential_unless_asked_for() -> None:
    def noisy(x: Any) -> Any:
        return tf.cast(x, tf.float32) + tf.random.uniform([])

    plan = DataPlan.from_arrays(np.arange(4)).map(twice).map(noisy)
    rewrite = with_parallel_maps(plan, 2)
    assert [stage.parallel for stage in rewrite.plan.stages[1:]] == [2, None]
    assert "RandomUniform" in rewrite.done
    asked = with_parallel_maps(plan, 2, random_maps=True)
    assert [stage.parallel for stage in asked.plan.stages[1:]] == [2, 2]


def test_parallel_map_leaves_the_workloads_own_choice() -> None:
    plan = DataPlan.from_arrays(np.arange(4)).map(twice, parallel=3).map(twice)
    rewrite = with_parallel_maps(plan, 2)
    assert [stage.parallel for stage in rewrite.plan.stages[1:]] == [3, 2]
    assert with_parallel_maps(rewrite.plan).reason == "every map is parallel already"


@pytest.mark.tensorflow
def test_no_map_stage_is_not_applied(train: Callable[..., Driven]) -> None:
    effect = train(ParallelMap()).effect
    assert not effect.applied
    assert "there is no map stage" in effect.detail


@pytest.mark.tensorflow
def test_maps_inside_a_concatenation_and_a_zip_become_parallel() -> None:
    part = tf.data.Dataset.range(5).map(twice)
    for given in (part.concatenate(part), tf.data.Dataset.zip(part, part)):
        plan = DataPlan.from_dataset(given)
        rewrite = with_parallel_maps(plan, 2, ordered=False)
        found = [stage for inner in rewrite.plan.source.parts for stage in inner.stages[1:]]
        assert [stage.parallel for stage in found] == [2, 2]
        before, after = (
            sorted(map(str, data.as_numpy_iterator())) for data in (given, lower(rewrite.plan))
        )
        assert before == after


@pytest.mark.tensorflow
def test_without_an_accelerator_nothing_is_copied_to_one(train: Callable[..., Driven]) -> None:
    effect = train(PrefetchToDevice()).effect
    assert not effect.applied
    assert "no accelerator" in effect.detail


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # its number is not known there
def test_prefetch_to_a_device_is_the_last_stage_and_reads_itself_back(train):
    effect = train(PrefetchToDevice(device="/cpu:0", buffer_size=2)).effect
    assert effect.applied
    assert effect.detail == "train: prefetch: 2, to /cpu:0"
    plan = with_prefetch_to_device(DataPlan.from_arrays(np.arange(4)), "/cpu:0").plan.batch(2)
    assert plan.describe()[-1] == "prefetch: AUTOTUNE, to /cpu:0"
    assert [batch.numpy().tolist() for batch in lower(plan)] == [[0, 1], [2, 3]]


def test_prefetch_stays_before_that_to_the_device() -> None:
    plan = with_prefetch(DataPlan.from_arrays(np.arange(4)).batch(2), 3).plan
    plan = with_prefetch_to_device(plan, "/gpu:0").plan
    assert plan.describe()[-2:] == ("prefetch: 3", "prefetch: AUTOTUNE, to /gpu:0")


@pytest.mark.tensorflow
def test_prefetch_is_left_out_where_reading_further_ahead_changes_an_order() -> None:
    endless = DataPlan.from_arrays(np.arange(16)).batch(5).shuffle(16, seed=7).repeat()

    def orders(plan: DataPlan) -> list[list[int]]:
        """The first examples of the batches of two iterators, the first of which is abandoned."""
        tf.random.set_seed(3)
        data = lower(plan)
        return [[int(batch[0]) for batch in data.take(count)] for count in (8, 8)]

    # how far it reads ahead is the business of a thread, which may be late on a busy machine
    plain = orders(endless)
    assert any(orders(endless.prefetch(16)) != plain for _ in range(50))
    assert with_prefetch(endless, 16).plan is endless
    assert with_prefetch(DataPlan.from_arrays(np.arange(16)).repeat(), 16).done


def test_strategy_over_several_devices_is_left_to_copy_itself() -> None:
    run = make_run(machine=machine_with((8, 0), (8, 0)), replicas=2)
    plan = DataPlan.from_arrays(np.arange(4))
    assert PrefetchToDevice().build_dataset(run, "train", plan) is plan


@pytest.mark.tensorflow
def test_strategy_of_one_device_is_left_to_copy_itself() -> None:
    one, mirrored = tf.distribute.OneDeviceStrategy("/cpu:0"), tf.distribute.MirroredStrategy
    plan = DataPlan.from_arrays(np.arange(4))
    for strategy in (one, mirrored(["/cpu:0"])):
        run = make_run(strategy=strategy)
        assert PrefetchToDevice(device="/cpu:0").build_dataset(run, "train", plan) is plan


def fed_by(plan: DataPlan, **changes: Any) -> Diagnosis:
    told = {"machine": CPU, "batch_size": 2, "examples": 20, "example_bytes": 8.0, **changes}
    return diagnosis(0.5, 0.1, 0.4, 0.5, plans={"train": plan}, **told)


def test_input_plugins_are_suggested_where_a_map_that_could_be_faster_makes_steps_wait() -> None:
    numbers = DataPlan.from_arrays(np.arange(20))
    plan = numbers.map(twice).batch(2)
    by_itself = numbers.map(twice, parallel=2).cache().batch(2).prefetch()
    for told, answer in (
        (fed_by(plan), {}),
        (fed_by(plan, input_seconds=0.01, data_seconds=0.01), None),
        (fed_by(by_itself), None),
    ):
        assert [p().suggest(told) for p in (Cache, ParallelMap, Prefetch, VectorizeMap)] == [
            answer
        ] * 4


def test_what_pays_on_some_machines_and_workloads_only_is_suggested_there() -> None:
    plan = DataPlan.from_arrays(np.arange(20)).map(twice).shuffle(20).batch(8)
    told = fed_by(plan, example_bytes=2.0**30, batch_size=8, jit_compile=True)
    assert Shuffle().suggest(told) == Batch().suggest(told) == {}
    assert PrefetchToDevice().suggest(attrs.evolve(told, machine=machine_with((8, 0)))) == {}
    # nothing heavy in the buffer, whole batches, no compilation, no GPU
    small = attrs.evolve(told, example_bytes=8.0, jit_compile=False)
    assert Shuffle().suggest(small) is None
    assert Batch().suggest(small) is None
    assert Batch().suggest(attrs.evolve(told, batch_size=10)) is None
    assert PrefetchToDevice().suggest(told) is None
    assert Interleave().suggest(told) is None
    files = DataPlan.from_arrays(np.array(["a", "b"])).interleave(twice, cycle_length=1).batch(2)
    assert Interleave().suggest(fed_by(files)) == {}


# What was done is found again below data that hide what they were computed from


def resident(plan: DataPlan) -> DataPlan:
    return plan.append(Resident())


def served(plan: DataPlan) -> DataPlan:
    def from_nowhere(dataset: Any) -> Any:
        variant = tf.data.experimental.to_variant(dataset)
        return tf.data.experimental.from_variant(variant, dataset.element_spec)

    return with_service(plan, from_nowhere, divided=False).plan


@pytest.mark.tensorflow
@pytest.mark.parametrize("hidden_by", [resident, served])
def test_a_rewrite_is_confirmed_below_what_hides_its_inputs(hidden_by: Any) -> None:
    plan = DataPlan.from_arrays(np.arange(8)).map(lambda x: x + 1)
    stack = stack_of(ParallelMap(), build_dataset=plan)
    run = make_run()
    dataset = lower(hidden_by(stack.build_dataset(run, "train")).batch(2))
    assert not walk.has_stage(dataset, "ParallelMap")
    effect = stack.report_effects(attrs.evolve(run, datasets={"train": dataset}), None)
    assert effect["ParallelMap"].applied

    other = attrs.evolve(run, datasets={"train": lower(hidden_by(plan).batch(2))})
    assert not stack.report_effects(other, None)["ParallelMap"].applied
