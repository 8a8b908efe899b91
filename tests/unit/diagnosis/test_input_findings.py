"""What is named in input pipelines, with its place."""

import inspect

import numpy as np
import pytest

from tfopt_core import DataPlan
from tfopt_core.data import TakeWhile
from tfopt_core.training.messages import StepTrace

pytestmark = pytest.mark.tensorflow

X = np.arange(400, dtype="float32").reshape(100, 4)


def scaled(x, y):
    return x / 2.0, y


def noisy(x, y):
    import tensorflow as tf

    return x + tf.random.normal(tf.shape(x)), y


def in_python(x, y):
    import tensorflow as tf

    return tf.ensure_shape(tf.py_function(lambda a: a + 1, [x], tf.float32), (4,)), y


def sized_by_its_value(x, y):
    import tensorflow as tf

    return tf.range(x[0]), y


def decoded(x, y):
    import tensorflow as tf

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
    from tfopt_core.data import Map
    from tfopt_core.diagnosis.input_findings import StageCost

    return [
        StageCost(stage, index, seconds)
        for index, stage in enumerate(made.stages)
        if isinstance(stage, Map)
    ]


def found(made, *, costs=True, step_seconds=0.01, waits=False, split="train"):
    from tfopt_core.diagnosis.input_findings import plan_findings

    timed = costs_of(made) if costs else ()
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
    import tensorflow as tf

    named = found(plan(in_python).batch(8), costs=False)
    assert named["python-function"].place == place(in_python)

    def in_python_too(x, y):
        return tf.numpy_function(lambda a: True, [x], tf.bool)

    until = plan().append(TakeWhile(function=in_python_too)).batch(8)
    assert found(until, costs=False)["python-function"].place == place(in_python_too)


def test_a_python_generator_is_named_with_its_place():
    import tensorflow as tf

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
    import keras

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
    import tensorflow as tf

    from tfopt_core.diagnosis.input_findings import stage_costs

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
    assert [cost.index for cost in costs] == [1, 2]
    assert [cost.step_seconds for cost in costs] == [pytest.approx(0.012), 0.0]


@pytest.mark.thorough
def test_examples_of_several_shapes_are_timed_one_by_one():
    from tfopt_core.diagnosis.input_findings import stage_costs

    made = plan(sized_by_its_value).apply(lambda data: data.ragged_batch(4))
    assert stage_costs(made) == ()  # no batch known
    made = plan(sized_by_its_value, lambda x, y: (x[:2], y)).batch(4)
    [first, _] = stage_costs(made)
    assert first.step_seconds >= 0


def test_what_is_traced_or_compiled_anew_is_named():
    from tfopt_core.diagnosis.input_findings import retracing_findings

    again = StepTrace(steps=9, shapes="(8, 5)", cause="shapes")
    assert [f.kind for f in retracing_findings([again], "")] == ["retracing"]
    [anew] = retracing_findings([], "batches come in several shapes")
    assert "XLA compiles the step anew" in anew.detail
    assert not list(retracing_findings([], ""))
