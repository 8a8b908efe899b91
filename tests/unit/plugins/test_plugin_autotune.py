"""The autotune plugin: what it sets is what the lowered data set says."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import keras, tf
from tfopt_data.autotune import Autotune, with_autotune

from tfopt_core import DataPlan
from tfopt_core.data import Autotune as AutotuneStage
from tfopt_core.data.autotune_model import Tuned, noting, read_tuning, tuned, tuning_of
from tfopt_core.data.lower import lower
from tfopt_core.testing import make_machine, make_run, stack_of

PLAN = DataPlan.from_arrays(np.arange(6.0)).batch(2)


class Probe:
    machine = make_machine(cpu_count=3)

    def available_memory_bytes(self):
        return 2**30


class Model:
    """What a readout is kept by."""

    def __init__(self):
        self.train_function = next


def test_auto_takes_what_this_process_may_use():
    resolved = Autotune().resolve(Probe())
    assert (resolved.cpu_budget, resolved.ram_budget_mib) == (3, 512)
    fixed = Autotune(cpu_budget=1, ram_budget_mib=7).resolve(Probe())
    assert (fixed.cpu_budget, fixed.ram_budget_mib) == (1, 7)


def test_switched_off_no_budget_is_set():
    [*_, stage] = with_autotune(PLAN, False, 3, 512).plan.stages
    assert isinstance(stage, AutotuneStage)
    assert stage.describe() == "autotune: off"
    assert stage.ram_budget_bytes is None


@pytest.mark.tensorflow
@pytest.mark.parametrize("mode", ["budget", "off"])
def test_the_lowered_data_set_has_the_options_and_the_same_elements(mode):
    plugin = Autotune(mode=mode, cpu_budget=2, ram_budget_mib=64)
    stack = stack_of(plugin, build_dataset=PLAN)
    run = make_run()
    dataset = lower(stack.build_dataset(run, "train"))
    assert dataset.options().autotune.enabled is (mode == "budget")
    assert [batch.numpy().tolist() for batch in dataset] == [[0, 1], [2, 3], [4, 5]]
    run = attrs.evolve(run, datasets={"train": dataset})
    effect = stack.report_effects(run, Model())["Autotune"]
    assert effect.applied
    assert effect.detail == "train: autotune: " + ("2 CPUs, 64 MiB" if mode == "budget" else "off")


@pytest.mark.tensorflow
def test_budgets_that_the_lowered_data_do_not_hold_are_not_applied():
    plugin = Autotune(cpu_budget=2, ram_budget_mib=64)
    stack = stack_of(plugin, build_dataset=PLAN)
    run = make_run()
    stack.build_dataset(run, "train")
    run = attrs.evolve(run, datasets={"train": tf.data.Dataset.range(3)})
    effect = stack.report_effects(run, Model())["Autotune"]
    assert not effect.applied
    assert "the lowered data hold other options" in effect.detail


# What AUTOTUNE chose


def tunable() -> Any:
    """A data set with something to tune in a map, an interleave, a batch and a prefetch."""
    auto = tf.data.AUTOTUNE

    def opened(number: Any) -> Any:
        return tf.data.Dataset.from_tensors(number).map(lambda n: n * 2, num_parallel_calls=auto)

    return (
        tf.data.Dataset.range(1000)
        .map(lambda n: n + 1, num_parallel_calls=auto)
        .map(lambda n: n + 1, num_parallel_calls=3)
        .interleave(opened, cycle_length=4, num_parallel_calls=auto)
        .batch(10, num_parallel_calls=auto)
        .prefetch(auto)
    )


@pytest.mark.tensorflow
def test_every_tuned_value_is_read_in_the_order_of_the_stages():
    iterator = iter(tunable())
    for _ in range(20):
        next(iterator)
    values = tuned(iterator)
    assert [(value.stage, value.parameter) for value in values] == [
        ("map", "parallelism"),
        ("interleave", "parallelism"),
        ("batch", "parallelism"),
        ("prefetch", "buffer_size"),
    ]
    assert all(value.value >= 0 for value in values)
    assert len(list(iterator)) == 80


@pytest.mark.tensorflow
def test_stages_of_both_sides_of_a_zip_are_read():
    one = tf.data.Dataset.range(5).map(lambda n: n + 1, num_parallel_calls=tf.data.AUTOTUNE)
    other = tf.data.Dataset.range(5).batch(1, num_parallel_calls=tf.data.AUTOTUNE)
    iterator = iter(tf.data.Dataset.zip((one, other)))
    next(iterator)
    assert {"map", "batch"} <= {value.stage for value in tuned(iterator)}


@pytest.mark.tensorflow
def test_stages_that_tf_data_put_together_are_named_as_they_run():
    data = tf.data.Dataset.range(8).map(lambda n: n + 1, num_parallel_calls=tf.data.AUTOTUNE)
    iterator = iter(data.batch(2))
    next(iterator)
    assert "map-and-batch" in {value.stage for value in tuned(iterator)}


@pytest.mark.tensorflow
def test_why_nothing_can_be_read_is_said():
    options = tf.data.Options()
    options.autotune.enabled = False
    with pytest.raises(ValueError, match="does not tune this data set"):
        tuned(iter(tunable().with_options(options)))
    distributed = tf.distribute.MirroredStrategy(["CPU:0"]).experimental_distribute_dataset(
        tunable()
    )
    with pytest.raises(ValueError, match="a DistributedIterator cannot be asked"):
        tuned(iter(distributed))


@pytest.mark.tensorflow
def test_what_fit_trained_on_is_read_at_its_end_and_reported():
    """The three lines that a training needs: note at each epoch's begin, read at the end."""

    class Looking(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.train_function = noting(self.model, self.model.train_function)

        def on_train_end(self, logs=None):
            read_tuning(self.model)

    x = np.arange(64.0, dtype="float32").reshape(-1, 1)
    plan = (
        DataPlan.from_arrays(x, x).map(lambda x, y: (x * 2, y), parallel="auto").batch(4).prefetch()
    )
    stack = stack_of(Autotune(cpu_budget=2, ram_budget_mib=64), build_dataset=plan)
    run = make_run()
    dataset = lower(stack.build_dataset(run, "train"))
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(dataset, epochs=2, verbose=0, shuffle=False, callbacks=[Looking()])
    run = attrs.evolve(run, datasets={"train": dataset})
    detail = stack.report_effects(run, model)["Autotune"].detail
    start = "train: autotune: 2 CPUs, 64 MiB; AUTOTUNE ended with map-and-batch "
    assert detail.startswith(start)
    assert detail.endswith(" ahead")


def test_an_iterator_is_noted_but_not_kept_alive():
    model = Model()
    function = noting(model, model.train_function)
    assert noting(model, function) is function
    iterator = (number for number in (1, 2))
    assert function(iterator) == 1
    del iterator
    read_tuning(model)
    assert tuning_of(model).describe() == (
        "what AUTOTUNE chose is unknown: the iterator was gone before it was read"
    )


def test_a_model_that_nobody_looked_at_has_nothing_to_tell():
    model = Model()
    read_tuning(model)
    assert tuning_of(model).describe() == ""


def test_values_are_said_in_words():
    values = (Tuned("map", "parallelism", 2), Tuned("prefetch", "buffer_size", 8))
    tuning = attrs.evolve(tuning_of(Model()), values=values)
    assert tuning.describe() == "AUTOTUNE ended with map 2 at once, prefetch 8 ahead"
    assert attrs.evolve(tuning, values=()).describe() == "AUTOTUNE had nothing to set"


# Where it may pay

CALM = diagnosis(
    input_=0.0, dispatch=0.001, compute=0.009, data=0.0001, example_bytes=8.0,
    machine=make_machine(cpu_count=2, cpu_count_total=8), epochs=3, plans={"train": PLAN},
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "suggested"),
    [
        ({}, {"mode": "off"}),
        ({"steps_per_epoch": None}, None),
        ({"step_seconds": 1.0}, None),
        # the wait at the end of a short epoch counts as input, so costly input says nothing else
        ({"input_seconds": 0.005}, {"mode": "off"}),
        ({"input_seconds": 0.5, "step_seconds": 1.0}, {"mode": "budget"}),
        ({"input_seconds": 0.5, "step_seconds": 1.0, "machine": make_machine()}, None),
        ({"plans": {"train": with_autotune(PLAN, on=False).plan}}, None),
        ({"plans": {}}, None),
    ],
)
def test_it_is_suggested_for_short_epochs_and_in_containers(changes, suggested):
    assert Autotune().suggest(attrs.evolve(CALM, **changes)) == suggested
