"""The chunked and the resident loop train as Keras' own does; under XLA, to rounding."""

import gc
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import attrs
import numpy as np
import pytest
from support.cases import mostly_thorough
from support.in_process import build_here
from support.lazy_modules import keras, tf
from support.small_workloads import with_own_step
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident

from tfopt_core import DataPlan, Workload
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.toolkit import loop_report
from tfopt_core.training.build import FROM_CONSTANTS, build_state
from tfopt_core.training.fit import train
from tfopt_core.training.loops.report import Loop
from tfopt_core.training.loops.train_functions import made_function

# 101 examples in batches of 8 are 12 whole batches and one of 5; 4 and 5 steps do not divide 13.
EXAMPLES, BATCH_SIZE, STEPS, EPOCHS = 101, 8, 13, 3
CHUNKED, CHUNKED_XLA = Chunked(steps=4, xla=False), Chunked(steps=5, xla=True)
RESIDENT, RESIDENT_XLA = Resident(xla=False), Resident(xla=True)
RESIDENT_FIVE = Resident(steps=5, xla=False)
LOOPS = [CHUNKED, RESIDENT_XLA, RESIDENT, RESIDENT_FIVE, CHUNKED_XLA]


def named(loop):
    return f"{type(loop).__name__.lower()} {loop.steps}{' XLA' if loop.xla else ''}"


def over(*loops, kept=1):
    """The first loops of these in `make test`, the others in `make test-all` only."""
    return pytest.mark.parametrize("loop", mostly_thorough(loops, loops[:kept], ids=named))


def arrays(seed=0):
    source = np.random.default_rng(seed)
    x = source.random((EXAMPLES, 6), dtype="float32")
    return x, (x.sum(1) > 3).astype("int32")


def small_model(*layers: Any) -> Any:
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((6,)), dense(8, "relu"), *layers, dense(2)])


def workload(**changes: Any) -> Workload:
    whole = Workload(
        train=arrays(), validation=arrays(1), build_model=small_model, optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"],
    )  # fmt: skip
    return attrs.evolve(whole, **changes)


def unvalidated(**changes: Any) -> Workload:
    """The same with less to trace: without validation, and by an optimizer of few operations."""
    return workload(**{"validation": None, "optimizer": "sgd", **changes})


def trained(folder, given, *plugins, epochs=EPOCHS):
    built = build_here(
        given, *plugins, folder=folder, seed=5, epochs=epochs,
        batch_size=None if isinstance(given.train, DataPlan) and given.train.batched
        else BATCH_SIZE,
    )  # fmt: skip
    outcome = train(built, perf_counter_ns(), lambda message: None)
    return built, outcome


def effect_of(built, plugin):
    effects = built.stack.report_effects(built.run, built.model)
    return effects[type(plugin).__name__]


STOCK: dict[Any, Any] = {}


def stock(folder, make, *beside):
    """The same training without the loop; once for all loops that are compared with it."""
    key = make, beside
    if key not in STOCK:
        built, outcome = trained(folder / "plain", make(), *beside)
        STOCK[key] = built.model.get_weights(), outcome
    return STOCK[key]


def assert_like_stock(folder, make, loop, *beside):
    """Two trainings of the workload that is made, without the loop and with it."""
    plain_weights, plain = stock(folder, make, *beside)
    built, outcome = trained(folder / "ours", make(), *beside, loop)
    effect = effect_of(built, loop)
    assert effect.applied, effect.detail
    assert ("compiled whole by XLA" in effect.detail) is (loop.xla is True)
    within = 2e-4 if loop.xla else 1e-6
    assert set(outcome.history) == set(plain.history)
    for name, values in plain.history.items():
        assert outcome.history[name] == pytest.approx(values, abs=within), name
    for ours, theirs in zip(built.model.get_weights(), plain_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=within)
    assert outcome.steps == plain.steps
    assert int(built.model.optimizer.iterations) == STEPS * EPOCHS
    return built, outcome


@over(*LOOPS, kept=1)
def test_losses_weights_and_validation_are_those_of_stock_fit(loop, tmp_path):
    built, outcome = assert_like_stock(tmp_path, workload, loop)
    made = loop_report(built.model)
    assert made.steps == STEPS * EPOCHS
    assert made.calls == EPOCHS * -(-STEPS // made.steps_per_call)
    assert built.model.steps_per_execution == 1  # no property of the model that is left
    assert {block.cold for block in outcome.blocks if block.epoch == 2} == {""}


def recurrent():
    """XLA can compile the gradient of a loop only where it knows all sizes."""
    layers = keras.layers
    return unvalidated(
        build_model=lambda: keras.Sequential(
            [keras.Input((6,)), layers.Reshape((3, 2)), layers.LSTM(4), layers.Dense(2)]
        )
    )


@pytest.mark.thorough
@over(CHUNKED_XLA, RESIDENT_XLA)
def test_a_recurrent_model_is_compiled_whole(loop, tmp_path):
    assert_like_stock(tmp_path, recurrent, loop)


def compiled_programs():
    """How many programs of XLA there are: each lies in executable memory that no file backs."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    return sum("x" in line[1] and len(line) < 6 for line in lines)


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/self/maps is Linux's")
def test_no_call_but_the_first_is_compiled(tmp_path):
    """XLA would compile anew for each value of an argument that says where a slice begins."""
    built = build_here(unvalidated(), RESIDENT, folder=tmp_path, batch_size=4)
    gc.collect()  # no program of an earlier test goes meanwhile
    for kind in ("resident", "chunked"):
        function = made_function(built, Loop(3, True, kind))
        iterator, programs = iter(built.run.datasets["train"]), [compiled_programs()]
        for _ in range(5):
            function(iterator)
            programs.append(compiled_programs())
        assert programs[0] < programs[1] == programs[2] == programs[5], kind


def custom_step():
    """Two nets that train against each other; what the step reports are no metrics."""

    class Two(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = small_model(), small_model()

        def call(self, x: Any) -> Any:
            return self.one(x) - self.other(x)

        def train_step(self, data: Any) -> Any:
            x, _ = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self.one(x) - 1) ** 2 + (self.other(x) + self.one(x)) ** 2)
            weights = self.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"game": loss, "twice": {"each": 2 * loss}["each"]}

    return unvalidated(build_model=Two, loss=None, metrics=[])


@over(CHUNKED, CHUNKED_XLA, RESIDENT_XLA)
def test_logs_of_a_custom_step_are_those_of_the_epochs_last_step(loop, tmp_path):
    assert_like_stock(tmp_path, custom_step, loop)


def test_mixed_precision_and_its_loss_scale_are_kept(tmp_path):
    precision = MixedPrecision(policy="mixed_float16", force=True)
    assert_like_stock(tmp_path, unvalidated, CHUNKED, precision)


def sizes_that_change():
    """Batches of 5 or 8 examples, in an order that only the data tell."""

    def cut(x, y):
        kept = tf.where(x[0, 0] < 0.7, 8, 5)
        return x[:kept], y[:kept]

    plan = DataPlan.from_arrays(*arrays()).batch(BATCH_SIZE)
    return unvalidated(train=plan.map(cut))


@pytest.mark.thorough
@over(CHUNKED, CHUNKED_XLA)
def test_batches_of_any_size_come_in_their_order(loop, tmp_path):
    assert_like_stock(tmp_path, sizes_that_change, loop)


@pytest.mark.thorough
def test_batches_of_unknown_size_are_compiled_step_by_step(tmp_path):
    def regrouped():
        dataset = tf.data.Dataset.from_tensor_slices(arrays()).batch(4).rebatch(8)
        return unvalidated(train=DataPlan.from_dataset(dataset))

    _, plain = trained(tmp_path, regrouped())
    built, outcome = trained(tmp_path, regrouped(), CHUNKED_XLA)
    assert outcome.history["loss"] == pytest.approx(plain.history["loss"], abs=2e-4)
    why = "XLA compiled single steps only: batches hold tensors of unknown size"
    assert why in effect_of(built, CHUNKED_XLA).detail


def each_batch():
    class EachBatch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None): ...

    return [EachBatch()]


def test_a_callback_that_hears_of_validation_batches_vetoes_no_loop(tmp_path):
    class Counts(keras.callbacks.Callback):
        batches = 0

        def on_test_batch_end(self, batch, logs=None):
            Counts.batches += 1

    built, _ = trained(tmp_path, workload(callbacks=lambda: [Counts()]), CHUNKED, epochs=1)
    assert Counts.batches == STEPS
    assert effect_of(built, CHUNKED).applied


@attrs.frozen(kw_only=True, eq=False)
class AddsBatchCallback(Plugin):
    """A plugin behind the loop, so the loop's own plugin cannot see what it adds."""

    @hookimpl
    def configure_training(self, options):
        return attrs.evolve(options, callbacks=tuple(each_batch()))


def test_a_callback_that_a_later_plugin_adds_vetoes_the_loop(tmp_path):
    built, outcome = trained(tmp_path, unvalidated(), RESIDENT, AddsBatchCallback(), epochs=1)
    assert effect_of(built, RESIDENT).detail == "the callback EachBatch acts on every batch"
    assert outcome.steps == STEPS


@pytest.mark.parametrize("name", ["run_eagerly", "make_train_function"])
def test_a_model_that_only_keras_can_train_is_left_to_it(name, tmp_path):
    class Own(keras.Sequential):
        def compile(self, **given):
            super().compile(**{**given, "run_eagerly": name == "run_eagerly"})

        if name == "make_train_function":

            def make_train_function(self, force=False):
                return super().make_train_function(force)

    def build_model():
        return Own([keras.Input((6,)), keras.layers.Dense(2)])

    built, outcome = trained(tmp_path, unvalidated(build_model=build_model), RESIDENT, epochs=1)
    effect = effect_of(built, RESIDENT)
    assert not effect.applied
    assert "eagerly" in effect.detail or name in effect.detail
    assert outcome.steps == STEPS


@pytest.mark.filterwarnings("ignore:Model doesn't support")
def test_a_layer_without_xla_is_trained_without_and_the_effect_says_so(tmp_path):
    class NoXla(keras.layers.Layer):
        def __init__(self, **given):
            super().__init__(**given)
            self.supports_jit = False

        def call(self, x):
            return x

    given = unvalidated(build_model=lambda: small_model(NoXla()))
    built, _ = trained(tmp_path, given, CHUNKED_XLA, epochs=1)
    assert "Keras turned it off for a layer" in effect_of(built, CHUNKED_XLA).detail


def test_the_first_step_is_traced_once(tmp_path):
    built = build_here(unvalidated(optimizer="adam"), RESIDENT, folder=tmp_path, epochs=1)
    outcome = train(built, perf_counter_ns(), lambda message: None)
    assert [trace.cause for trace in outcome.traces] == ["first"]


@pytest.mark.thorough
def test_a_loop_that_traces_for_a_smaller_call_is_no_retrace(tmp_path):
    _, outcome = trained(tmp_path, unvalidated(), CHUNKED)
    assert outcome.traces[0].cause == "first"
    assert {trace.cause for trace in outcome.traces} <= {"first", "loop"}


def frozen_at_first() -> Any:
    model = small_model()
    model.layers[0].trainable = False
    return model


def with_a_step_set_on_it() -> Any:
    model = small_model()
    model.train_step = model.train_step
    return model


def with_a_train_function_of_its_own() -> Any:
    class Own(keras.Model):
        def make_train_function(self, force: bool = False) -> Any:
            return super().make_train_function(force)

    stock = small_model()
    return Own(stock.inputs, stock.outputs)


@pytest.mark.parametrize(
    ("build_model", "ahead"),
    [
        (small_model, True), (frozen_at_first, False), (with_a_step_set_on_it, False),
        (lambda: with_own_step(small_model()), False), (with_a_train_function_of_its_own, False),
    ],
)  # fmt: skip
def test_keras_builds_what_a_callback_or_a_step_of_its_own_may_change(tmp_path, build_model, ahead):
    built = build_here(unvalidated(build_model=build_model), folder=tmp_path)
    build_state(built)
    assert built.model.optimizer.built is ahead


def with_a_copy_of_the_weights() -> Any:
    class Lookahead(keras.optimizers.SGD):
        def build(self, variables: Any) -> None:
            super().build(variables)
            self.slow = [variable.numpy() for variable in variables]

    return Lookahead()


@pytest.mark.parametrize(
    ("make", "ahead"),
    [
        (lambda: keras.optimizers.Nadam(), True),
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), True),
        (lambda: keras.optimizers.ScheduleFreeAdamW(), False),
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.ScheduleFreeAdamW()), False),
        (with_a_copy_of_the_weights, False),
    ],
)
def test_keras_builds_an_optimizer_that_begins_with_the_weights(tmp_path, make, ahead):
    built = build_here(unvalidated(optimizer=make()), folder=tmp_path)
    build_state(built)
    assert built.model.optimizer.built is ahead


def test_of_a_model_that_is_not_traced_or_has_no_optimizer_nothing_is_built_ahead(tmp_path):
    built = build_here(unvalidated(), folder=tmp_path)
    built.model.run_eagerly = True
    build_state(built)
    assert not built.model.optimizer.built
    built.model.optimizer = None
    build_state(built)


@pytest.mark.parametrize("name", FROM_CONSTANTS)
def test_variables_of_an_optimizer_that_is_built_ahead_do_not_tell_the_weights(name):
    begun = []
    for value in (0.5, 2.0):
        optimizer = getattr(keras.optimizers, name)()
        optimizer.build([keras.Variable(np.full((3, 2), value), name="kernel")])
        begun.append([variable.numpy() for variable in optimizer.variables])
    for one, other in zip(*begun, strict=True):
        np.testing.assert_array_equal(one, other)
