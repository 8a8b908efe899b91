"""XLA, steps per execution, threads."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.lazy_modules import keras
from support.plugin_drive import CPU, Driven, FakeProbe, machine_with
from tfopt_runtime.loops import candidates, smallest_good
from tfopt_runtime.loops import why_not as why_not_steps
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.threads import Threads, thread_counts
from tfopt_runtime.xla import Xla, why_not

from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import RuntimeOptions, TrainingOptions
from tfopt_core.testing import make_machine, make_run


@pytest.mark.tensorflow
def test_xla_reads_back_that_it_is_on(train: Callable[..., Driven]) -> None:
    driven = train(Xla())
    assert driven.model.jit_compile is True
    assert driven.effect.applied


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:Model doesn't support")
def test_xla_names_the_layer_that_blocks_it(train: Callable[..., Driven]) -> None:
    def blocked() -> Any:
        class NoXla(keras.layers.Layer):
            def __init__(self, **given: Any) -> None:
                super().__init__(**given)
                self.supports_jit = False

            def call(self, x: Any) -> Any:
                return x

        return keras.Sequential([keras.Input((4,)), NoXla(name="turn"), keras.layers.Dense(1)])

    effect = train(Xla(), model=blocked).effect
    assert not effect.applied
    assert 'layer "turn"' in effect.detail


@pytest.mark.tensorflow
def test_xla_that_keras_would_not_use_is_not_switched_off(train: Callable[..., Driven]) -> None:
    driven = train(Xla(mode="off"))
    assert driven.model.jit_compile is False
    assert not driven.effect.applied
    assert "does not compile this model by XLA anyway" in driven.effect.detail


@pytest.mark.tensorflow
def test_xla_of_the_workload_is_switched_off() -> None:
    options = TrainingOptions(optimizer="sgd", jit_compile=True)
    plugin, run = Xla(mode="off"), make_run()
    after = plugin.configure_training(run, options)
    assert after.jit_compile is False
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=after.jit_compile)
    assert plugin.report_effect(run, model).applied
    model.jit_compile = True
    assert "reads True" in plugin.report_effect(run, model).detail


@pytest.mark.parametrize(
    ("compiled", "mode", "said"),
    [(0.5, "on", "500.00 ms"), (0.98, "off", "980.00 ms"), (math.inf, "off", "could not be timed")],
)
def test_xla_auto_takes_what_the_probe_timed_as_faster(compiled, mode, said):
    probe = FakeProbe(seconds=lambda plugin: {"off": 1.0, "on": compiled}[plugin.mode])
    plugin = Xla(mode="auto", persistent_cache=True).resolve(probe)
    assert (plugin.mode, plugin.persistent_cache) == (mode, mode == "on")
    assert probe.notes == [f"a step without XLA: 1,000.00 ms; with XLA: {said}"]


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:Model doesn't support")
def test_xla_auto_times_nothing_where_keras_turns_xla_off() -> None:
    def compiled(plugin: Xla) -> Any:
        lstm = keras.layers.LSTM(4, name="lstm")
        lstm.supports_jit = False  # which Keras sets where there is a GPU
        model = keras.Sequential([keras.Input((3, 2)), lstm, keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=plugin.mode == "on")
        return model

    found = 'nothing was timed: Keras turned XLA off: no support in layer "lstm"'
    for machine, cudnn in (
        (CPU, ""),
        (machine_with((8, 0)), ", which cuDNN computes on a GPU, usually faster"),
    ):
        probe = FakeProbe(machine=machine, compiled=compiled)
        assert Xla(mode="auto").resolve(probe).mode == "off"
        assert probe.timed == []
        assert probe.notes == [f"{found}{cudnn}"]


def test_compiled_programs_are_kept_beside_flags_that_are_set(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=0")
    options = Xla(persistent_cache=True).configure_runtime(make_machine(), RuntimeOptions())
    own, flag = options.environment["TF_XLA_FLAGS"].split()
    assert own == "--tf_xla_auto_jit=0"
    folder = Path(flag.removeprefix("--tf_xla_persistent_cache_directory="))
    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path / "tfopt" / "xla")
    assert Xla().configure_runtime(make_machine(), RuntimeOptions()) == RuntimeOptions()


def test_xla_is_left_alone_over_replicas() -> None:
    options = TrainingOptions(optimizer="adam")
    assert "2 replicas" in why_not(2, options)
    assert why_not(1, options) == ""


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        ({1: 4.0, 4: 2.0, 16: 1.01, 64: 1.0}, 16),
        ({1: 4.0, 4: 4.1, 16: 1.0, 64: 0.9}, 64),  # one size without a gain does not end it
        ({1: 1.02, 4: 1.0, 16: 1.0, 64: 1.0}, 1),
        ({1: 1.0}, 1),
    ],
)
def test_the_fewest_steps_within_three_percent_of_the_fastest_are_taken(seconds, steps):
    assert smallest_good(seconds) == steps


def test_no_more_steps_are_timed_than_an_epoch_has() -> None:
    assert candidates(None) == (1, 4, 16, 64)
    assert candidates(20) == (1, 4, 16)


def test_resolve_times_all_sizes_in_turns() -> None:
    probe = FakeProbe(seconds=lambda plugin: {1: 2.0, 4: 1.01}.get(plugin.steps, 1.0))
    assert StepsPerExecution().resolve(probe).steps == 4
    assert [[one.steps for one in timed] for timed in probe.timed] == [[1, 4, 16, 64]]
    assert StepsPerExecution(steps=8).resolve(probe).steps == 8


def test_steps_are_left_alone_over_replicas() -> None:
    assert "2 replicas" in why_not_steps(2, ())


@pytest.mark.tensorflow
def test_steps_are_read_back(train: Callable[..., Driven]) -> None:
    assert train(StepsPerExecution(steps=2)).effect.detail == "2 steps a call"
    assert not train(StepsPerExecution(steps=1)).effect.applied


@pytest.mark.tensorflow
def test_batch_callback_vetoes_more_steps(train: Callable[..., Driven]) -> None:
    class EachBatch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None: ...

    lambdas = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
    for callback in (EachBatch(), keras.callbacks.TerminateOnNaN(), lambdas):
        driven = train(StepsPerExecution(steps=2), callbacks=(callback,))
        assert driven.options.steps_per_execution == 1
        assert not driven.effect.applied
        assert type(callback).__name__ in driven.effect.detail


@pytest.mark.tensorflow
def test_epoch_callbacks_do_not_veto(train: Callable[..., Driven], tmp_path: Any) -> None:
    callbacks = (
        keras.callbacks.EarlyStopping(monitor="loss"),
        keras.callbacks.ModelCheckpoint(tmp_path / "x.keras", monitor="loss"),
    )
    assert train(StepsPerExecution(steps=2), callbacks=callbacks).effect.applied


def test_threads_left_out_are_the_usable_cpus() -> None:
    assert thread_counts(CPU, None, None) == (2, 2)
    assert thread_counts(CPU, 4, 1) == (4, 1)


def test_threads_are_runtime_options() -> None:
    stack = Stack([StackedPlugin("threads", Threads(inter_op=1))])
    options = stack.configure_runtime(CPU, None)  # type: ignore[arg-type]
    assert (options.intra_op_threads, options.inter_op_threads) == (2, 1)


@pytest.mark.tensorflow
def test_threads_that_tensorflow_does_not_have_are_not_applied(train):
    effect = train(Threads(intra_op=3, inter_op=5)).effect
    assert not effect.applied
    assert "reads back" in effect.detail
