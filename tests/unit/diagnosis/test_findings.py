"""What is named of a training that costs time: its input pipelines, callbacks, steps and epochs."""

import inspect

import numpy as np
import pytest
from support.in_process import build_here
from support.lazy_modules import keras, tf

from tfopt_core import DataPlan, Workload
from tfopt_core.data import Map, TakeWhile
from tfopt_core.diagnosis.input_findings import (
    plan_findings,
    retracing_findings,
    stage_costs,
)
from tfopt_core.diagnosis.results import EpochPart, StepPart
from tfopt_core.diagnosis.step_parts import Parts
from tfopt_core.diagnosis.training_findings import (
    _why_compiled_anew,
    epoch_findings,
    model_findings,
)
from tfopt_core.training.messages import StepTrace

X = np.arange(400, dtype="float32").reshape(100, 4)


def scaled(x, y):
    return x / 2.0, y


def noisy(x, y):
    return x + tf.random.normal(tf.shape(x)), y


def in_python(x, y):
    return tf.ensure_shape(tf.py_function(lambda a: a + 1, [x], tf.float32), (4,)), y


def decoded(x, y):
    return tf.io.decode_raw(tf.strings.as_string(x), tf.uint8), y


def place(function):
    return f"{__file__}:{inspect.getsourcelines(function)[1]}"


def plan(*functions):
    start = DataPlan.from_arrays(X, X[:, :1])
    for function in functions:
        start = start.map(function)
    return start


def costs_of(made, seconds=1e-3):
    """Every function takes a millisecond of a step."""
    return {index: seconds for index, stage in enumerate(made.stages) if isinstance(stage, Map)}


def found(made, *, costs=True, step_seconds=0.01, waits=False, split="train"):
    timed = costs_of(made) if costs else {}
    return {f.kind: f for f in plan_findings(split, made, timed, step_seconds, waits)}


def test_a_map_that_takes_one_example_after_another_is_named_with_its_place():
    named = found(plan(scaled).batch(8))
    assert named["sequential-map"].place == place(scaled)
    assert named["sequential-map"].split == "train"
    assert "1 ms" in named["sequential-map"].detail
    assert "each of the 8 examples" in named["unbatched-map"].detail


def test_a_parallel_map_over_batches_is_fine():
    assert found(plan().batch(8).map(scaled, parallel="auto")) == {}


def test_a_map_that_takes_next_to_no_time_is_not_worth_a_word():
    assert found(plan(scaled).batch(8), step_seconds=1.0) == {}


def test_what_only_works_on_one_example_is_not_to_be_batched():
    assert "unbatched-map" not in found(plan(decoded).batch(8))
    assert "unbatched-map" not in found(plan(in_python).batch(8))


def test_python_called_by_a_stage_is_named_with_its_place():
    named = found(plan(in_python).batch(8), costs=False)
    assert named["python-function"].place == place(in_python)

    def in_python_too(x, y):
        return tf.numpy_function(lambda a: True, [x], tf.bool)

    until = plan().append(TakeWhile(function=in_python_too)).batch(8)
    assert found(until, costs=False)["python-function"].place == place(in_python_too)


def test_a_python_generator_is_named_with_its_place():
    def examples():
        yield from X

    assert found(DataPlan.from_generator(examples).batch(8))["python-generator"].place == (
        place(examples)
    )
    dataset = tf.data.Dataset.from_generator(
        examples, output_signature=tf.TensorSpec((4,), tf.float32)
    )
    assert "python-generator" in found(DataPlan.from_dataset(dataset.batch(8)))


def test_a_pydataset_is_python_too():
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return X[:8], X[:8, :1]

    named = found(DataPlan.from_pydataset(Batches()), waits=True)
    assert named["python-generator"].place == place(Batches.__getitem__)
    assert "workers = 1" in named["python-generator"].detail
    assert "no-prefetch" not in named


def test_a_cache_behind_what_is_random_freezes_it():
    named = found(plan(noisy).cache().batch(8), costs=False)["misplaced-cache"]
    assert named.place == place(noisy)
    assert "at random" in named.detail


def test_a_cache_behind_a_shuffle_freezes_the_order():
    shuffled = plan().shuffle(100).cache().batch(8)
    assert "order" in found(shuffled)["misplaced-cache"].detail
    # what a validation finds is the same in any order
    assert "misplaced-cache" not in found(shuffled, split="validation")


def test_a_cache_before_dear_work_that_never_changes_is_too_early():
    named = found(plan().cache().map(scaled).batch(8))["misplaced-cache"]
    assert named.place == place(scaled)
    assert "1 ms of each step" in named.detail


def test_a_cache_in_its_place_is_fine():
    assert "misplaced-cache" not in found(plan(scaled).cache().shuffle(100).map(noisy).batch(8))


def test_a_missing_prefetch_matters_where_a_step_waits():
    assert "no-prefetch" in found(plan().batch(8), waits=True)
    assert "no-prefetch" not in found(plan().batch(8), waits=False)
    assert "no-prefetch" not in found(plan().batch(8).prefetch(), waits=True)


def test_what_each_map_costs_is_timed_apart(monkeypatch):
    monkeypatch.setattr("tfopt_core.diagnosis.input_findings.STAGE_SECONDS", 0.05)
    calls = []

    def dear(x, y):
        called = tf.numpy_function(lambda a: (calls.append(1), a)[1], [x], tf.float32)
        return tf.ensure_shape(called, (4,)), y

    def seconds_of(epochs, steps):
        """A step takes 1 ms, and 12 ms more where the dear map was called in it."""
        seconds = 0.013 if calls else 0.001
        calls.clear()
        return seconds

    monkeypatch.setattr("tfopt_core.diagnosis.input_findings.seconds_a_step", seconds_of)
    costs = stage_costs(plan(dear, scaled).shuffle().batch(4))
    assert costs == {1: pytest.approx(0.012), 2: 0.0}


def test_what_is_traced_or_compiled_anew_is_named():
    again = StepTrace(steps=9, shapes="(8, 5)", cause="shapes")
    assert [f.kind for f in retracing_findings([again], "")] == ["retracing"]
    [anew] = retracing_findings([], "batches come in several shapes")
    assert "XLA compiles the step anew" in anew.detail
    assert not list(retracing_findings([], ""))


PICTURES = np.random.default_rng(1).random((16, 4, 4, 1), "float32")


def flat():
    return [keras.layers.Flatten()]


def findings_of(folder, layers, *, epochs=1, batch_size=8, computes=0.01):
    """What the model of these layers shows, of a step of 40 ms."""

    def build_model():
        return keras.Sequential([keras.Input(PICTURES.shape[1:]), *layers(), keras.layers.Dense(1)])

    y = PICTURES.reshape(len(PICTURES), -1)[:, :1]
    workload = Workload(train=(PICTURES, y), build_model=build_model, optimizer="sgd", loss="mse")
    built = build_here(workload, folder=folder, epochs=epochs, batch_size=batch_size)
    part, compute = (StepPart(share=share, low=share, high=share) for share in (0.01, computes))
    parts = Parts(
        step_seconds=0.04, input=part, dispatch=part, compute=compute, data_seconds=0.0,
        dispatch_known=True,
    )  # fmt: skip
    return list(model_findings(built, parts, None))


@pytest.mark.parametrize(
    ("epochs", "batch_size", "computes", "found"),
    [(1, 16, 0.01, 1), (2, 16, 0.01, 0), (1, 8, 0.01, 0), (1, 16, 0.8, 0)],
)
def test_a_fit_for_one_batch_that_mostly_prepares_it_is_named_with_what_to_call(
    tmp_path, epochs, batch_size, computes, found
):
    given = {"epochs": epochs, "batch_size": batch_size, "computes": computes}
    every = findings_of(tmp_path, flat, **given)
    named = [one for one in every if one.kind == "fit-for-a-batch"]
    assert len(named) == found
    assert all("40 ms a call, of which the update takes 0.4 ms" in one.detail for one in named)


def test_the_switch_that_has_functions_run_eagerly_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tf.config, "functions_run_eagerly", lambda: True)
    [found] = findings_of(tmp_path, flat)
    assert (found.kind, found.mend) == ("runs-eagerly", "tf.config.run_functions_eagerly(False)")


def test_layers_that_augment_within_the_model_are_named(tmp_path):
    def augmenting():
        class Mine(keras.layers.RandomRotation):
            """Derived, as a script may do."""

        inner = keras.Sequential([keras.layers.RandomFlip(), Mine(0.1), keras.layers.Rescaling(2)])
        return [inner, *flat()]

    [found] = [one for one in findings_of(tmp_path, augmenting) if "augment" in one.kind]
    assert found.detail.startswith("Mine, RandomFlip: each step waits")
    assert not [one for one in findings_of(tmp_path, flat) if "augment" in one.kind]


@pytest.mark.parametrize(
    ("shape", "batch_size", "xla", "why"),
    [
        ((4, 4, 1), 5, True, "the last batch of an epoch is smaller"),
        ((4, 4, 1), 8, True, ""),
        ((None, 4, 1), 8, True, "batches come in several shapes"),
        ((4, 4, 1), 5, False, ""),
    ],
)
def test_shapes_for_which_xla_compiles_a_step_anew_are_known_beforehand(
    tmp_path, shape, batch_size, xla, why
):
    def build_model():
        layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
        return keras.Sequential([keras.Input(shape), *layers])

    data = tf.data.Dataset.from_tensor_slices((PICTURES, PICTURES[:, 0, 0]))
    data = data.map(lambda x, y: (tf.raw_ops.PlaceholderWithDefault(input=x, shape=shape), y))
    workload = Workload(train=data, build_model=build_model, optimizer="sgd", loss="mse")
    built = build_here(workload, folder=tmp_path, batch_size=batch_size)
    built.model.jit_compile = xla
    assert _why_compiled_anew(built) == why


# What takes a tenth of an epoch besides its steps is found, with what shortens it


def found_besides(*parts, steps=100):
    # 1 s of steps
    return list(epoch_findings(parts, 0.01, steps))


def test_what_takes_less_than_a_tenth_or_is_not_known_is_no_finding():
    assert found_besides(EpochPart(name="validation", seconds=0.1)) == []
    assert found_besides(EpochPart(name="Plots", note="not timed")) == []
    # without a number of steps
    assert found_besides(EpochPart(name="validation", seconds=9.0), steps=None) == []


def test_a_costly_validation_is_named_with_its_mends():
    (one,) = found_besides(EpochPart(name="validation", seconds=1.0))
    assert (one.kind, one.split) == ("costly-validation", "validation")
    assert one.detail == "it takes 50% of an epoch"
    assert "validation_freq" in one.mend


def test_a_callback_is_found_by_name_with_the_mend_of_its_class():
    save, plots = found_besides(
        EpochPart(name="ModelCheckpoint 2", seconds=0.5), EpochPart(name="Plots", seconds=0.5)
    )
    assert save.detail == "ModelCheckpoint 2 takes 25% of an epoch"
    assert "save_freq" in save.mend
    assert "no plugin shortens it" in plots.mend
