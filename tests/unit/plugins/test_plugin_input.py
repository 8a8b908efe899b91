"""Prefetch, autotune, parallel maps, and what confirms a rewrite below data that hide it."""

from functools import partial

import attrs
import numpy as np
import pytest
from support.lazy_modules import tf
from support.pipelines import assert_left_alone
from support.plugin_drive import FakeProbe, machine_with
from tfopt_data.autotune import Autotune, with_autotune
from tfopt_data.data_service import with_service
from tfopt_data.parallel_map import ParallelMap, with_parallel_maps
from tfopt_data.prefetch import with_prefetch
from tfopt_data.prefetch_to_device import PrefetchToDevice, with_prefetch_to_device

from tfopt_core import DataPlan
from tfopt_core.data import Cache, Prefetch, Resident
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower
from tfopt_core.testing import make_machine, make_run, stack_of


def twice(x):
    return x * 2


def test_data_set_that_ends_with_a_prefetch_is_left_alone():
    plan = DataPlan.from_dataset(tf.data.Dataset.range(4).batch(2).prefetch(1))
    assert_left_alone(plan, with_prefetch(plan), "the workload has its own (prefetch: 1)")
    assert with_prefetch(plan.take(1)).done


def test_parallel_map_in_any_order_leaves_what_a_take_chooses_from():
    plan = DataPlan.from_arrays(np.arange(9)).map(lambda x: x + 1).take(3)
    assert_left_alone(
        plan,
        with_parallel_maps(plan, 2, ordered=False),
        '"take: 3" behind it would choose other examples',
    )
    assert with_parallel_maps(plan, 2).done


def test_a_map_that_draws_stays_sequential_unless_asked_for():
    def noisy(x):
        return tf.cast(x, tf.float32) + tf.random.uniform([])

    plan = DataPlan.from_arrays(np.arange(4)).map(twice).map(noisy)
    rewrite = with_parallel_maps(plan, 2)
    assert [stage.parallel for stage in rewrite.plan.stages[1:]] == [2, None]
    assert "RandomUniform" in rewrite.done
    asked = with_parallel_maps(plan, 2, random_maps=True)
    assert [stage.parallel for stage in asked.plan.stages[1:]] == [2, 2]


def test_parallel_map_leaves_the_workloads_own_choice():
    plan = DataPlan.from_arrays(np.arange(4)).map(twice, parallel=3).map(twice)
    rewrite = with_parallel_maps(plan, 2)
    assert [stage.parallel for stage in rewrite.plan.stages[1:]] == [3, 2]
    assert with_parallel_maps(rewrite.plan).reason == "every map is parallel already"


def test_maps_inside_a_concatenation_and_a_zip_become_parallel():
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


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # its number is not known there
def test_prefetch_to_a_device_is_the_last_stage_and_reads_itself_back(train):
    effect = train(PrefetchToDevice(device="/cpu:0", buffer_size=2)).effect
    assert effect.applied
    assert effect.detail == "train: prefetch: 2, to /cpu:0"
    plan = with_prefetch_to_device(DataPlan.from_arrays(np.arange(4)), "/cpu:0").plan.batch(2)
    assert plan.describe()[-1] == "prefetch: AUTOTUNE, to /cpu:0"
    assert [batch.numpy().tolist() for batch in lower(plan)] == [[0, 1], [2, 3]]


def test_prefetch_is_left_out_where_reading_further_ahead_changes_an_order():
    endless = DataPlan.from_arrays(np.arange(16)).batch(5).shuffle(16, seed=7).repeat()

    def orders(plan):
        """The first examples of the batches of two iterators, the first of which is abandoned."""
        tf.random.set_seed(3)
        data = lower(plan)
        return [[int(batch[0]) for batch in data.take(count)] for count in (8, 8)]

    # how far it reads ahead is the business of a thread, which may be late on a busy machine
    plain = orders(endless)
    assert any(orders(endless.prefetch(16)) != plain for _ in range(50))
    assert with_prefetch(endless, 16).plan is endless
    assert with_prefetch(DataPlan.from_arrays(np.arange(16)).repeat(), 16).done


def test_a_strategy_is_left_to_copy_itself():
    one, mirrored = tf.distribute.OneDeviceStrategy("/cpu:0"), tf.distribute.MirroredStrategy
    plan = DataPlan.from_arrays(np.arange(4))
    for run in (
        make_run(machine=machine_with((8, 0), (8, 0)), replicas=2),
        make_run(strategy=one),
        make_run(strategy=mirrored(["/cpu:0"])),
    ):
        assert PrefetchToDevice(device="/cpu:0").build_dataset(run, "train", plan) is plan


# What was done is found again below data that hide what they were computed from


def resident(plan):
    return plan.append(Resident())


def served(plan):
    def from_nowhere(dataset):
        variant = tf.data.experimental.to_variant(dataset)
        return tf.data.experimental.from_variant(variant, dataset.element_spec)

    return with_service(plan, from_nowhere, divided=False).plan


@pytest.mark.parametrize("hidden_by", [resident, served])
def test_a_rewrite_is_confirmed_below_what_hides_its_inputs(hidden_by):
    plan = DataPlan.from_arrays(np.arange(8)).map(lambda x: x + 1)
    stack = stack_of(ParallelMap(), build_dataset=plan)
    run = make_run()
    dataset = lower(hidden_by(stack.build_dataset(run, "train")).batch(2))
    assert not walk.has_stage(dataset, "ParallelMap")
    effect = stack.report_effects(attrs.evolve(run, datasets={"train": dataset}), None)
    assert effect["ParallelMap"].applied

    other = attrs.evolve(run, datasets={"train": lower(hidden_by(plan).batch(2))})
    assert not stack.report_effects(other, None)["ParallelMap"].applied


PLAN = DataPlan.from_arrays(np.arange(6.0)).batch(2)


def test_auto_takes_what_this_process_may_use():
    probe = FakeProbe(machine=make_machine(cpu_count=3))
    resolved = Autotune().resolve(probe)
    assert (resolved.cpu_budget, resolved.ram_budget_mib) == (3, 512)
    fixed = Autotune(cpu_budget=1, ram_budget_mib=7).resolve(probe)
    assert (fixed.cpu_budget, fixed.ram_budget_mib) == (1, 7)


def test_it_stays_on_where_what_is_read_ahead_decides_an_order():
    endless = PLAN.shuffle(seed=1).repeat()
    refused = with_autotune(endless, on=False)
    assert refused.plan is endless
    assert refused.reason.startswith("a repeat follows a shuffle")
    for plan in (endless.prefetch(), PLAN.repeat(), PLAN.shuffle(seed=1)):
        assert with_autotune(plan, on=False).done == "autotune: off"
    assert with_autotune(endless, on=True).done


@pytest.mark.parametrize("change", [with_prefetch, partial(with_autotune, on=False)])
def test_what_draws_on_where_it_was_read_ahead_to_is_left_alone_in_data_read_in_parts(change):
    generator = tf.random.Generator.from_seed(3)
    drawn = PLAN.map(lambda x: x + generator.normal((), dtype=x.dtype))
    for parts in (drawn.repeat(), attrs.evolve(drawn, read_in_parts=True)):
        refused = change(parts)
        assert not refused.done
        assert "RngReadAndSkip" in refused.reason
        assert "how far is read ahead" in refused.reason
    assert "read ahead" not in change(drawn.repeat(2).prefetch(1)).reason  # as the user set it
    assert change(attrs.evolve(PLAN.shuffle(seed=1), read_in_parts=True)).done
    # a cache that is not filled to its end is thrown away, and a prefetch before the draws is none
    inside = PLAN.append(Prefetch(buffer_size=2, inside=True)).map(drawn.stages[-1].function)
    for plan in (drawn.append(Cache()), inside):
        assert not change(attrs.evolve(plan, read_in_parts=True)).done
    assert change(drawn).done  # read to its end, a pass leaves the generator where it always does
    seeded = PLAN.map(lambda x: x + tf.random.uniform((), seed=1, maxval=9, dtype=x.dtype))
    assert change(seeded.repeat()).done  # its draws begin anew with each iterator


@pytest.mark.parametrize("mode", ["budget", "off"])
def test_the_lowered_data_set_has_the_options_and_the_same_elements(mode):
    plugin = Autotune(mode=mode, cpu_budget=2, ram_budget_mib=64)
    stack = stack_of(plugin, build_dataset=PLAN)
    run = make_run()
    dataset = lower(stack.build_dataset(run, "train"))
    assert dataset.options().autotune.enabled is (mode == "budget")
    assert [batch.numpy().tolist() for batch in dataset] == [[0, 1], [2, 3], [4, 5]]
    run = attrs.evolve(run, datasets={"train": dataset})
    effect = stack.report_effects(run, None)["Autotune"]
    assert effect.applied
    assert effect.detail == "train: autotune: " + ("2 CPUs, 64 MiB" if mode == "budget" else "off")
    run = attrs.evolve(run, datasets={"train": tf.data.Dataset.range(3)})
    effect = stack.report_effects(run, None)["Autotune"]
    assert not effect.applied
    assert "the lowered data hold other options" in effect.detail
