"""XLA, steps per execution, threads, the graph optimizer's passes, and the memory of GPUs."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.plugin_drive import CPU, FakeProbe, machine_with
from tfopt_runtime.gpu_memory import GpuMemory
from tfopt_runtime.grappler import (
    OFF_BY_DEFAULT,
    Grappler,
    OptimizedNodes,
    nodes_in_words,
)
from tfopt_runtime.loops import why_not as why_not_steps
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.threads import Threads
from tfopt_runtime.xla import Xla, why_not

from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import RuntimeOptions, TrainingOptions
from tfopt_core.testing import make_machine, make_run


def test_xla_of_the_workload_is_switched_off():
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


@pytest.mark.filterwarnings("ignore:Model doesn't support")
def test_xla_auto_times_nothing_where_keras_turns_xla_off():
    def compiled(plugin):
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


def test_xla_is_left_alone_over_replicas():
    options = TrainingOptions(optimizer="adam")
    assert "2 replicas" in why_not(2, options)
    assert "2 replicas" in why_not_steps(2, ())
    assert why_not(1, options) == ""


@pytest.mark.parametrize(
    ("seconds", "epoch", "timed", "steps"),
    [
        ({1: 4.0, 4: 2.0, 16: 1.01, 64: 1.0}, None, [1, 4, 16, 64], 16),
        # one size without a gain does not end it
        ({1: 4.0, 4: 4.1, 16: 1.0, 64: 0.9}, None, [1, 4, 16, 64], 64),
        ({1: 1.02, 4: 1.0, 16: 1.0, 64: 1.0}, None, [1, 4, 16, 64], 1),
        # no more than an epoch has
        ({1: 4.0, 4: 2.0, 16: 1.0}, 20, [1, 4, 16], 16),
    ],
)
def test_the_fewest_steps_within_three_percent_of_the_fastest_are_taken(
    seconds, epoch, timed, steps
):
    probe = FakeProbe(seconds=lambda plugin: seconds[plugin.steps], steps_per_epoch=epoch)
    assert StepsPerExecution().resolve(probe).steps == steps
    assert [[one.steps for one in asked] for asked in probe.timed] == [timed]
    assert StepsPerExecution(steps=8).resolve(probe).steps == 8


def test_batch_callback_vetoes_more_steps(train):
    driven = train(StepsPerExecution(steps=2), callbacks=(keras.callbacks.TerminateOnNaN(),))
    assert driven.options.steps_per_execution == 1
    assert not driven.effect.applied
    assert "TerminateOnNaN" in driven.effect.detail


def test_threads_are_runtime_options():
    stack = Stack([StackedPlugin("threads", Threads(inter_op=1))])
    options = stack.configure_runtime(CPU, None)
    assert (options.intra_op_threads, options.inter_op_threads) == (2, 1)


@pytest.fixture
def optimizer():
    """Sets passes as a run's process does; the switches are put back."""
    touched = {}

    def set_passes(**passes):
        touched.update(passes)
        tf.config.optimizer.set_experimental_options(passes)

    yield set_passes
    tf.config.optimizer.set_experimental_options({n: n not in OFF_BY_DEFAULT for n in touched})


def deep():
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((4,)), dense(8, activation="relu"), dense(1)])


def test_a_stack_adds_to_the_passes_that_are_set():
    before = RuntimeOptions(grappler_options={"loop_optimization": False})
    after = Grappler(remapping=False).configure_runtime(before)
    assert after.grappler_options == {"loop_optimization": False, "remapping": False}


def test_every_setting_is_a_pass_of_this_tensorflow():
    config = tf.compat.v1.ConfigProto().graph_options.rewrite_options
    assert set(Grappler(remapping=True).passes) <= {f.name for f in config.DESCRIPTOR.fields}


def test_the_kinds_that_changed_most_are_named():
    own = OptimizedNodes({"A": 9, "B": 3}, {"A": 2, "_FusedB": 1})
    other = OptimizedNodes({"A": 9, "B": 3}, {"A": 7, "B": 1})
    assert nodes_in_words(own, other) == (
        "of 12 nodes of a step 4 removed and 0 fused (TensorFlow's own choice: 9 and 1): "
        "+5 A, +1 B, -1 _FusedB"
    )
    assert nodes_in_words(own, own) == ""


def test_a_pass_that_is_off_is_read_back_from_the_graph_and_no_variable_changes(train, optimizer):
    optimizer(remapping=False)
    driven = train(Grappler(remapping=False), model=deep, optimizer="adam")
    assert driven.effect.applied
    assert "and 0 fused (TensorFlow's own choice: " in driven.effect.detail
    assert "_FusedMatMul" in driven.effect.detail  # as many as the CPU allows
    run = make_run(element_spec=_spec())
    before = [v.numpy() for v in (*driven.model.variables, *driven.model.optimizer.variables)]
    assert driven.stack.plugins[0].plugin.report_effect(run, driven.model).applied
    after = [v.numpy() for v in (*driven.model.variables, *driven.model.optimizer.variables)]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def _spec():
    return (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))


def test_a_pass_that_finds_nothing_in_the_step_is_not_applied(train, optimizer):
    optimizer(loop_optimization=False)
    effect = train(Grappler(loop_optimization=False), model=deep).effect
    assert not effect.applied
    assert "loop_optimization = false leaves the graph of a step as it is" in effect.detail


def test_each_reason_why_no_pass_takes_effect_is_named(train, optimizer):
    assert "TensorFlow's own choice" in train(Grappler(remapping=True)).effect.detail
    driven = train(Grappler(constant_folding=False))
    assert "reads back another constant_folding" in driven.effect.detail
    optimizer(constant_folding=False)
    plugin, run = driven.stack.plugins[0].plugin, make_run(element_spec=_spec())
    driven.model.jit_compile = True
    assert "XLA compiles the step" in plugin.report_effect(run, driven.model).detail
    driven.model.jit_compile, driven.model.run_eagerly = False, True
    assert "runs eagerly" in plugin.report_effect(run, driven.model).detail


def test_the_memory_of_gpus_is_set_where_there_is_one():
    plain, gpu = RuntimeOptions(), machine_with((8, 0))

    def made(machine, **settings):
        result = GpuMemory(**settings).configure_runtime(machine, plain)
        assert isinstance(result, RuntimeOptions)
        return result

    assert made(CPU, allocator="async") == plain
    assert made(gpu).gpu_memory_growth is True
    limited = made(gpu, growth=False, limit_mib=512, allocator="async")
    assert (limited.gpu_memory_growth, limited.gpu_memory_limit_bytes) == (None, 512 * 2**20)
    assert limited.environment == {
        "TF_FORCE_GPU_ALLOW_GROWTH": "false", "TF_GPU_ALLOCATOR": "cuda_malloc_async",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("growth", "limit", "settings", "applied", "said"),
    [
        (True, None, {}, True, "memory as needed on 1 GPU"),
        (False, None, {}, False, "TensorFlow reads back all memory at once"),
        (False, None, {"growth": False}, False, "all memory at once is TensorFlow's own choice"),
        (False, 512, {"growth": False, "limit_mib": 512}, True, "at most 512 MiB on 1 GPU"),
        (True, None, {"allocator": "async"}, False, "reads back memory as needed"),
    ],
)
def test_the_memory_of_a_simulated_gpu_is_read_back(
    monkeypatch,
    growth, limit, settings, applied, said,
):  # fmt: skip
    logical = [tf.config.LogicalDeviceConfiguration(memory_limit=limit)] if limit else None
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["GPU:0"])
    monkeypatch.setattr(tf.config.experimental, "get_memory_growth", lambda gpu: growth)
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: logical)
    effect = GpuMemory(**settings).report_effect(make_run(machine=machine_with((8, 0))))
    assert effect.applied is applied
    assert said in effect.detail


def test_without_a_gpu_it_says_so():
    effect = GpuMemory().report_effect(make_run(machine=CPU))
    assert (effect.applied, "there is no GPU" in effect.detail) == (False, True)
