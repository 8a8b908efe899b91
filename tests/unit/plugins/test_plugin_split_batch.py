"""A call in parts makes what the whole call makes, or says why the model is left whole."""

import math

import attrs
import numpy as np
import pytest
from support.lazy_modules import keras, layers, tf
from support.plugin_drive import FakeProbe, machine_with
from tfopt_runtime.split_batch import SplitBatch, fastest
from tfopt_runtime.split_call import SplitCalls

from tfopt_core import DataPlan
from tfopt_core.plugins import PluginRefused, ProbedTraining, RuntimeOptions, TrainingOptions
from tfopt_core.testing import make_machine, make_run

FEATURES = 6
X = np.random.default_rng(0).normal(size=(7, FEATURES)).astype("float32")


def model(*given):
    return keras.Sequential([keras.Input((FEATURES,)), *given, keras.layers.Dense(2)])


def called(whole, inputs=X, parts=2):
    """What became of a call in training mode, and its outputs."""
    calls = SplitCalls(parts, jit_compile=False)

    @tf.function
    def step(batch):
        with calls.within(whole):
            return whole(batch, training=True)

    return calls, step(inputs)


def test_dropout_draws_another_stream_for_each_part():
    dropout = keras.layers.Dropout(0.5, name="dropout")
    whole = keras.Sequential([keras.Input((FEATURES,)), dropout])
    calls, outputs = called(whole, np.ones((8, FEATURES), "float32"))
    assert calls.reason == ""
    assert not np.array_equal(outputs[:4], outputs[4:])
    assert int(dropout.seed_generator.state.numpy()[1]) == 1


def centred():
    class Centred(keras.layers.Layer):
        def call(self, inputs):
            return inputs - keras.ops.mean(inputs, axis=0, keepdims=True)

    return Centred()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("BatchNormalization", 'moving_mean" changes in each step, from the whole batch'),
        ("ActivityRegularization", "a layer adds a loss of its own when it is called"),
        (centred, "what it makes of an example depends on the others of the batch"),
    ],
)
def test_a_model_whose_examples_meet_is_left_whole_and_says_why(kind, words):
    layer = getattr(keras.layers, kind)() if isinstance(kind, str) else kind()
    whole = model(layer)
    calls, outputs = called(whole)
    assert words in calls.reason
    assert calls.traced == 0
    np.testing.assert_allclose(outputs, whole(X, training=True), rtol=1e-4)


def test_a_mask_of_the_output_and_states_that_are_carried_on_are_named():
    tagged = keras.Sequential([keras.Input((FEATURES,)), layers.Embedding(3, 2, mask_zero=True)])
    words = (X > 0).astype("int32")
    assert "its output has a mask" in called(tagged, words)[0].reason
    carried = keras.Sequential(
        [keras.Input(batch_shape=(7, FEATURES, 1)), layers.LSTM(2, stateful=True, name="memory")]
    )
    assert '"memory" carries states' in called(carried, X[..., None])[0].reason


def test_a_batch_smaller_than_the_parts_is_named():
    assert "fewer than parts" in called(model(), X[:2], parts=3)[0].reason


def test_inputs_of_another_kind_in_a_later_trace_leave_the_model_whole():
    whole, calls = model(), SplitCalls(2, jit_compile=False)
    for inputs, traced, reason in (
        (X, 1, ""),
        (tf.sparse.from_dense(X), 1, "its inputs are not all dense"),
        (X, 2, ""),
    ):
        with calls.within(whole):
            np.testing.assert_allclose(whole(inputs), whole.layers[-1](X), rtol=1e-5)
        assert calls.traced == traced
        assert calls.reason.startswith(reason)
        assert bool(calls.reason) == bool(reason)


def by_parts(faster):
    """Seconds by parts and XLA, 1 s where none are given."""
    return lambda plugin: faster.get((plugin.parts, plugin.xla), 1.0)


def test_the_fastest_is_taken_if_it_gains_more_than_noise():
    probe = FakeProbe(seconds=by_parts({(2, False): 0.8, (2, True): 0.9}))
    resolved = SplitBatch().resolve(probe)
    assert (resolved.parts, resolved.xla) == (2, False)
    assert [(one.parts, one.xla) for one in probe.timed[0]] == [(1, False), (2, False), (2, True)]
    level = FakeProbe(seconds=by_parts({(2, False): 0.99, (2, True): math.inf}))
    assert SplitBatch().resolve(level).parts == 1
    assert fastest([1.0, 0.98, 0.95]) == 2


def test_given_parts_are_kept_and_only_xla_is_timed():
    probe = FakeProbe(seconds=by_parts({(4, True): 0.5}))
    resolved = SplitBatch(parts=4).resolve(probe)
    assert (resolved.parts, resolved.xla) == (4, True)
    with pytest.raises(PluginRefused, match="set parts and xla"):
        SplitBatch(parts=4).resolve(FakeProbe())


def test_xla_is_not_timed_where_the_stack_conflicts_with_it():
    probe = FakeProbe(seconds=by_parts({(2, False): 0.8}), conflicts={"xla": "fused-recurrent"})
    assert SplitBatch().resolve(probe).parts == 2
    assert [(one.parts, one.xla) for one in probe.timed[0]] == [(1, False), (2, False)]
    assert probe.notes == ['XLA was not timed: "fused-recurrent" conflicts with it']
    nothing_open = FakeProbe(conflicts={"xla": "fused-recurrent"})
    assert SplitBatch(parts=4).resolve(nothing_open).xla is False
    assert nothing_open.timed == []
    named = FakeProbe(seconds=by_parts({(2, True): 0.5}), conflicts={"xla": "fused-recurrent"})
    assert SplitBatch(xla=True).resolve(named).xla is True


def test_one_part_replicas_and_gpus_leave_the_training_alone():
    options = TrainingOptions(optimizer="adam")
    for plugin, run in (
        (SplitBatch(parts=1, xla=False), make_run()),
        (SplitBatch(parts=2, xla=False), make_run(replicas=2)),
        (SplitBatch(parts=2, xla=False), make_run(machine=machine_with((8, 0)))),
    ):
        assert plugin.configure_training(run, None, options) is options
        assert not plugin.report_effect(run, None).applied
    changed = SplitBatch(parts=2, xla=True).configure_training(make_run(), None, options)
    assert changed.jit_compile is False
    assert changed.wrap_train_step is not None


def test_parts_with_cores_of_their_own_set_the_threads():
    def threads(plugin, machine):
        options = plugin.configure_runtime(machine, RuntimeOptions())
        return options.intra_op_threads

    cpus = make_machine().cpu_count
    assert threads(SplitBatch(own_cores=True), make_machine()) == 1
    assert threads(SplitBatch(own_cores=True, parts=2), make_machine(cpu_count=7)) == 3
    assert threads(SplitBatch(own_cores=True, parts=2 * cpus), make_machine()) == 1
    assert threads(SplitBatch(own_cores=True), machine_with((8, 0))) is None
    assert threads(SplitBatch(own_cores=True, parts=1), make_machine()) is None
    assert threads(SplitBatch(), make_machine()) is None


def probed(*given, batch_size=64):
    """What a probe of a model says, for batches of this size."""
    whole = model(*given)
    whole.compile("adam", "mse")
    plan = DataPlan.from_arrays(X, X[:, :2])
    training = ProbedTraining(whole, whole.train_step, (X, X[:, :2]))
    plan = plan if batch_size is None else plan.batch(batch_size)
    return FakeProbe(seconds=by_parts({(2, True): 0.5}), plans={"train": plan}, probed=training)


@pytest.mark.parametrize(("batch_size", "parts"), [(64, 2), (31, 1), (None, 2)])
def test_parts_with_cores_of_their_own_are_not_timed_against_the_whole(batch_size, parts):
    probe = probed(batch_size=batch_size)
    resolved = SplitBatch(own_cores=True).resolve(probe)
    assert (resolved.parts, resolved.xla) == (parts, parts > 1)
    assert [[(one.parts, one.xla) for one in asked] for asked in probe.timed] == (
        [[(2, False), (2, True)]] if parts > 1 else []
    )


@pytest.mark.thorough
def test_a_model_that_cannot_be_in_parts_keeps_all_threads_and_says_why():
    given = SplitBatch(own_cores=True, parts=2, xla=False)
    assert given.resolve(probed()) is given
    probe = probed(keras.layers.BatchNormalization())
    resolved = given.resolve(probe)
    assert resolved.parts == 1
    assert "moving_mean" in probe.notes[0]
    options = resolved.configure_runtime(make_machine(), RuntimeOptions())
    assert options.intra_op_threads is None
    failing = probed()
    failing.probed = attrs.evolve(failing.probed, train_step=lambda data: data["no such key"])
    assert given.resolve(failing).parts == 1
    assert failing.notes[0].startswith("1 part: the train step ")
