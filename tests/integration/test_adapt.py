"""Switching between exact loops in one training changes nothing of it but its speed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any

import attrs
import numpy as np
import pytest
from support.cases import mostly_thorough
from support.in_process import build_here
from support.lazy_modules import keras, tf
from tfopt_distribute.one_device import OneDevice
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.xla import Xla

from tfopt_core import Workload
from tfopt_core.errors import TrainingDiverged
from tfopt_core.hooks import hookimpl
from tfopt_core.records.in_run import Adapted
from tfopt_core.training.fit import train
from tfopt_core.training.loops.exact_loops import Loop, Offer
from tfopt_core.training.loops.offers import offer_loops
from tfopt_core.training.loops.switching import SwitchingLoop, restarting_changes_nothing
from tfopt_core.trials.explore import Explorer

pytestmark = pytest.mark.tensorflow

# 1,010 examples in batches of 16 are 64 steps, the last of them of 2 examples.
EXAMPLES, BATCH_SIZE, EPOCHS, SEED = 1_010, 16, 3, 11
STEPS = 64


@attrs.define(eq=False)
class Scripted:
    """A decider that takes loops in turn and keeps the last one after so many calls."""

    offer: Offer
    sync: object
    loops: tuple[Loop, ...]
    calls: int = 12
    kept: Loop | None = None
    made: list[tuple[Loop, int]] = attrs.field(factory=list)
    failures: dict[Loop, str] = attrs.field(factory=dict)
    _asked: int = 0

    def choose(self):
        self._asked += 1
        if self._asked > self.calls:
            self.kept = self.loops[-1]
            return self.kept
        usable = [loop for loop in self.loops if loop not in self.failures]
        return usable[self._asked % len(usable)] if usable else self.offer.reference

    def called(self, loop, steps, *, traced):
        self.made.append((loop, steps))

    def failed(self, loop, reason):
        self.failures[loop] = reason

    def cut(self):
        pass

    def adapted(self):
        kept = "" if self.kept is None else self.kept.name
        return Adapted(reference=self.offer.reference.name, kept=kept, reason="")


def loops(*pairs):
    return tuple(Loop(steps, jit_compile) for steps, jit_compile in pairs)


def workload(**changes):
    """A small network with nothing random in it: what takes time here is tracing."""

    def build_model():
        dense = keras.layers.Dense
        return keras.Sequential([keras.Input((6,)), dense(4, "tanh"), dense(1)])

    x = np.random.default_rng(0).normal(size=(EXAMPLES, 6)).astype("float32")
    whole = Workload(
        train=(x, x.sum(1, keepdims=True)), validation=(x[:40], x[:40, :1]),
        build_model=build_model, optimizer=lambda: keras.optimizers.SGD(0.01, momentum=0.9),
        loss="mse", metrics=["mae"],
    )  # fmt: skip
    return attrs.evolve(whole, **changes)


def trained(folder, *plugins, adapt=None, trains=None, epochs=EPOCHS):
    """A finished training: what was built, its outcome, its messages and its decider."""
    told, deciders = [], []

    def remembered(offer, sync):
        deciders.append(adapt(offer, sync))
        return deciders[-1]

    built = build_here(
        trains or workload(), *plugins, folder=folder, seed=SEED, epochs=epochs,
        batch_size=BATCH_SIZE,
    )  # fmt: skip
    outcome = train(
        built, perf_counter_ns(), told.append, adapt=remembered if adapt is not None else None
    )
    return built, outcome, told, deciders[0] if deciders else None


def weights_of(built):
    return built.model.get_weights()


def assert_same_training(ours, plain, *, within):
    (built, outcome, *_), (plain_built, plain_outcome, *_) = ours, plain
    assert set(outcome.history) == set(plain_outcome.history)
    for name, values in plain_outcome.history.items():
        assert outcome.history[name] == pytest.approx(values, abs=within), name
    for mine, theirs in zip(weights_of(built), weights_of(plain_built), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=within)
    assert int(built.model.optimizer.iterations) == STEPS * outcome.epochs
    assert outcome.steps == STEPS * outcome.epochs
    assert outcome.epochs == plain_outcome.epochs


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"))


MIXES = {
    "four": loops((1, False), (4, False)),
    "sixteen": loops((1, False), (4, False), (16, False)),
    "none kept": loops((16, False), (1, False)),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Two calls of each loop, then the one of sixteen steps: decided in the first epoch."""
    adapt = partial(Scripted, loops=MIXES["sixteen"], calls=6)
    return trained(tmp_path_factory.mktemp("mixed"), adapt=adapt)


@pytest.mark.parametrize("name", mostly_thorough(MIXES, ["sixteen"]))
def test_several_steps_a_call_change_no_digit(name, plain, mixed, tmp_path):
    mix = MIXES[name]
    ours = mixed if name == "sixteen" else trained(tmp_path, adapt=partial(Scripted, loops=mix))
    assert_same_training(ours, plain, within=0)
    made = ours[3].made
    assert {loop for loop, _ in made} == set(mix)
    assert all(steps == loop.steps for loop, steps in made)


@pytest.mark.thorough
def test_xla_in_between_is_the_same_training_to_rounding(plain, tmp_path):
    mix = loops((1, False), (16, False), (1, True), (16, True))
    ours = trained(tmp_path, adapt=partial(Scripted, loops=mix))
    assert_same_training(ours, plain, within=1e-3)
    assert ours[1].jit_compile is True
    assert ours[0].model.jit_compile is False  # the model is left as it was


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(3, id="decided"),
        pytest.param(10_000, id="undecided", marks=pytest.mark.thorough),
    ],
)
def test_an_epoch_that_the_steps_do_not_divide_is_not_overrun(calls, plain, tmp_path):
    """64 steps by 24: 16 are left to the reference while `fit` counts single steps."""
    mix = loops((1, False), (24, False))
    ours = trained(tmp_path, adapt=partial(Scripted, loops=mix, calls=calls))
    assert_same_training(ours, plain, within=0)
    assert ours[0].model.steps_per_execution == 1


def test_the_stacks_own_steps_a_call_are_kept_as_the_unit(plain, tmp_path):
    mix = loops((3, False), (12, False))
    ours = trained(tmp_path, StepsPerExecution(steps=3), adapt=partial(Scripted, loops=mix))
    assert_same_training(ours, plain, within=0)
    assert ours[3].offer.reference == Loop(3, False)
    assert ours[3].offer.steps == (12,)
    effects = ours[0].stack.report_effects(ours[0].run, ours[0].model)
    assert effects["StepsPerExecution"].detail == "3 steps a call"


def with_moving_averages():
    return workload(optimizer=keras.optimizers.Adam(use_ema=True, ema_momentum=0.9))


def assert_no_other_fit_is_begun(folder, plain, make, *plugins):
    adapt = partial(Scripted, loops=MIXES["four"])
    ours = trained(folder, *plugins, trains=make(), adapt=adapt)
    assert ours[3].kept == Loop(4, False)
    assert not restarting_changes_nothing(ours[0])
    assert_same_training(ours, plain, within=0)


def test_a_strategy_of_one_device_changes_no_digit_nor_does_a_restart_under_it(plain, tmp_path):
    """Keras takes a batch before `fit` under a strategy, which would move the shuffle's seeds."""
    ours = trained(tmp_path, OneDevice(), adapt=partial(Scripted, loops=MIXES["four"]))
    assert_same_training(ours, plain, within=0)


@pytest.mark.thorough
def test_with_moving_averages_of_weights_fit_is_not_restarted(tmp_path):
    averaged = trained(tmp_path, trains=with_moving_averages())
    assert_no_other_fit_is_begun(tmp_path, averaged, with_moving_averages)


@pytest.mark.thorough
def test_callbacks_see_one_training(plain, tmp_path):
    heard = []

    class Heard(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            heard.append("begin")

        def on_epoch_end(self, epoch, logs=None):
            heard.append((epoch, self.params["epochs"]))

        def on_train_end(self, logs=None):
            heard.append("end")

    @attrs.frozen(kw_only=True, eq=False)
    class Listens:
        @hookimpl(wrapper=True)
        def configure_training(self, run):
            options = yield
            return attrs.evolve(options, callbacks=(*options.callbacks, Heard()))

    trained(tmp_path, Listens(), adapt=partial(Scripted, loops=MIXES["sixteen"]))
    assert heard == ["begin", (0, 3), (1, 3), (2, 3), "end"]


def test_the_clock_counts_a_call_of_many_steps_once(mixed):
    outcome = mixed[1]
    per_epoch = [sum(b.steps for b in outcome.blocks if b.epoch == e) for e in range(EPOCHS)]
    assert per_epoch == [STEPS] * EPOCHS
    assert all(block.seconds > 0 for block in outcome.blocks)
    assert all(b.steps % 16 == 0 for b in outcome.blocks if b.epoch)


@attrs.frozen(eq=False)
class FailsWhen:
    """A plugin whose training step does something first, while it is traced."""

    fails: Callable[[Any], None]

    @hookimpl(wrapper=True)
    def configure_training(self, run, model):
        options = yield

        def wrap(step):
            def train_step(data):
                self.fails(model)
                return step(data)

            return train_step

        return attrs.evolve(options, wrap_train_step=wrap)


def test_a_loop_that_fails_while_it_is_traced_is_dropped_and_no_batch_is_lost(plain, tmp_path):
    def no_loops(model):
        if model.steps_per_execution > 1:
            raise ValueError("no loops here")

    ours = trained(
        tmp_path, FailsWhen(no_loops),
        adapt=partial(Scripted, loops=loops((4, False), (16, False), (1, False))),
    )  # fmt: skip
    assert_same_training(ours, plain, within=0)
    failures = ours[3].failures
    assert set(failures) == set(loops((4, False), (16, False)))
    assert "no loops here" in failures[Loop(4, False)]


@pytest.mark.thorough
def test_a_loop_that_xla_cannot_compile_is_dropped_and_no_batch_is_lost(plain, tmp_path):
    """That is found when the step runs, after its batch was fetched."""

    def not_for_xla(model):
        tf.raw_ops.StringLength(input=tf.strings.as_string(model.optimizer.iterations))
        tf.debugging.check_numerics(
            tf.cast(tf.strings.length(tf.strings.as_string(model.optimizer.iterations)), "float32"),
            "used, so that it is not pruned",
        )

    ours = trained(
        tmp_path, FailsWhen(not_for_xla),
        adapt=partial(Scripted, loops=loops((1, True), (4, True), (1, False))),
    )  # fmt: skip
    assert set(ours[3].failures) == set(loops((1, True), (4, True)))
    assert_same_training(ours, plain, within=0)


def test_a_loss_that_is_no_number_is_found(tmp_path):
    diverging = workload(optimizer=partial_sgd(1e30))
    with pytest.raises(TrainingDiverged):
        trained(tmp_path, adapt=partial(Scripted, loops=MIXES["four"]), trains=diverging)


def partial_sgd(rate):
    return keras.optimizers.SGD(rate)


def offered(folder, *plugins, trains=None):
    """What a training offers to compare, and what it is told when that is nothing."""
    _, _, told, decider = trained(
        folder, *plugins, adapt=partial(Explorer, seed=1), trains=trains, epochs=1
    )
    adapted = [message for message in told if isinstance(message, Adapted)]
    assert len(adapted) == 1
    return decider.offer, adapted[0]


def test_an_empty_stack_is_offered_more_steps_a_call_and_xla(tmp_path):
    offer = offer_loops(build_here(workload(), folder=tmp_path, batch_size=BATCH_SIZE, epochs=1))
    assert (offer.reference, offer.steps) == (Loop(1, False), (4, 16))  # 64 fit but once
    assert offer.other_jit_compile is True
    assert offer.total_steps == STEPS


@pytest.mark.thorough
def test_what_the_stack_asks_for_by_name_is_not_compared(tmp_path):
    offer, _ = offered(tmp_path, Xla())
    assert offer.reference == Loop(1, True)
    assert offer.other_jit_compile is False


def test_a_callback_that_acts_on_batches_leaves_single_steps(tmp_path):
    class EveryBatch(keras.callbacks.Callback):
        batches = 0

        def on_train_batch_end(self, batch, logs=None):
            EveryBatch.batches += 1

    @attrs.frozen(kw_only=True, eq=False)
    class Adds:
        @hookimpl(wrapper=True)
        def configure_training(self, run):
            options = yield
            return attrs.evolve(options, callbacks=(EveryBatch(),))

    offer, adapted = offered(tmp_path, Adds())
    assert offer.steps == ()
    assert any("EveryBatch acts on every batch" in reason for reason in adapted.left_out)
    assert EveryBatch.batches == STEPS


def test_several_replicas_are_left_alone(tmp_path):
    built = build_here(workload(), folder=tmp_path, batch_size=BATCH_SIZE)
    built.run = attrs.evolve(built.run, replicas=2)
    [reason] = offer_loops(built).left_out
    assert reason.startswith("nothing to adapt: over 2 replicas another loop trains")


def nothing(model_class=None, **compiled):
    """A workload whose model cannot be adapted."""

    def build_model():
        inputs = keras.Input((2,))
        made = (model_class or keras.Model)(inputs, keras.layers.Dense(1)(inputs))
        for name, value in compiled.items():
            setattr(made, name, value)
        return made

    x = np.linspace(-1, 1, 2_000, dtype="float32").reshape(-1, 2)
    return Workload(train=(x, x[:, :1]), build_model=build_model, optimizer="sgd", loss="mse")


def test_a_train_function_of_the_models_own_is_left_alone(tmp_path):
    class Own(keras.Model):
        def make_train_function(self, force=False):
            return super().make_train_function(force)

    _, adapted = offered(tmp_path, trains=nothing(Own))
    assert adapted.reason == "nothing to adapt: the model has a make_train_function of its own"
    assert adapted.contrasts == ()


def test_a_model_that_runs_eagerly_is_left_alone(tmp_path):
    @attrs.frozen(kw_only=True, eq=False)
    class Eager:
        @hookimpl(wrapper=True)
        def configure_training(self, run, model):
            options = yield
            compiled = model.compile

            def compile(**kwargs):
                compiled(**{**kwargs, "run_eagerly": True, "jit_compile": False})

            model.compile = compile
            return options

    _, adapted = offered(tmp_path, Eager(), trains=nothing())
    assert adapted.reason == "nothing to adapt: the model runs eagerly"


def test_an_unknown_number_of_steps_leaves_single_steps(tmp_path):
    def examples():
        for number in range(500):
            yield np.full(2, number / 500, "float32"), np.full(1, number / 500, "float32")

    offer, adapted = offered(tmp_path, trains=attrs.evolve(nothing(), train=examples))
    assert offer.steps == ()
    assert any("the number of steps in an epoch is unknown" in r for r in adapted.left_out)


def test_the_real_thing_trains_the_same_and_says_what_it_found(plain, tmp_path):
    ours = trained(tmp_path, adapt=partial(Explorer, seed=2), epochs=EPOCHS)
    assert_same_training(ours, plain, within=1e-3)
    [adapted] = [message for message in ours[2] if isinstance(message, Adapted)]
    assert adapted.kept
    assert all("in-run" in contrast.statement for contrast in adapted.contrasts)


@pytest.mark.thorough
def test_xla_that_fails_on_the_epochs_smaller_last_batch_is_given_up(plain, tmp_path, monkeypatch):
    run = SwitchingLoop._run

    def fails_at_the_end(self, loop, iterator):
        if loop.jit_compile and self._left() == self._steps_of(loop):
            raise RuntimeError("no memory for this shape")
        return run(self, loop, iterator)

    monkeypatch.setattr(SwitchingLoop, "_run", fails_at_the_end)
    with pytest.warns(UserWarning, match="no memory for this shape") as caught:
        ours = trained(tmp_path, adapt=partial(Scripted, loops=loops((1, False), (1, True))))
    assert sum("goes on with 1 step a call" in str(w.message) for w in caught) == 1
    assert_same_training(ours, plain, within=1e-3)


def test_batches_that_would_not_fit_in_memory_are_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("tfopt_core.training.loops.offers.HELD_BYTES", 100)
    offer = offer_loops(build_here(workload(), folder=tmp_path, batch_size=BATCH_SIZE))
    assert offer.steps == ()
    assert any("would take" in reason for reason in offer.left_out)


def test_where_a_callback_hears_of_validation_batches_fit_is_not_restarted(tmp_path):
    class Heard(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            pass

    quiet, listens = (
        build_here(
            attrs.evolve(workload(), callbacks=callbacks), folder=tmp_path, batch_size=BATCH_SIZE
        )
        for callbacks in (tuple, lambda: [Heard()])
    )
    assert restarting_changes_nothing(quiet)
    assert not restarting_changes_nothing(listens)
