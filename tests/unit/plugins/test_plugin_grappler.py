"""The graph optimizer's passes, and the memory of GPUs."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.plugin_drive import CPU, machine_with
from tfopt_runtime.gpu_memory import GpuMemory
from tfopt_runtime.grappler import (
    OFF_BY_DEFAULT,
    Grappler,
    OptimizedNodes,
    changed_passes,
    nodes_in_words,
)

from tfopt_core.plugins import RuntimeOptions
from tfopt_core.testing import make_run


@pytest.fixture
def optimizer() -> Iterator[Callable[..., None]]:
    """Sets passes as a run's process does; the switches are put back."""
    touched: dict[str, bool] = {}

    def set_passes(**passes: bool) -> None:
        touched.update(passes)
        tf.config.optimizer.set_experimental_options(passes)

    yield set_passes
    tf.config.optimizer.set_experimental_options({n: n not in OFF_BY_DEFAULT for n in touched})


def deep() -> Any:
    dense = keras.layers.Dense
    return keras.Sequential([keras.Input((4,)), dense(8, activation="relu"), dense(1)])


def test_what_is_tensorflows_own_choice_is_not_set() -> None:
    passes = {"remapping": True, "constant_folding": False, "debug_stripper": False}
    assert changed_passes(passes) == {"constant_folding": False}
    assert changed_passes({"debug_stripper": True, "layout_optimizer": None}) == {
        "debug_stripper": True
    }


def test_a_stack_adds_to_the_passes_that_are_set() -> None:
    before = RuntimeOptions(grappler_options={"loop_optimization": False})
    after = Grappler(remapping=False).configure_runtime(before)
    assert after.grappler_options == {"loop_optimization": False, "remapping": False}


def test_every_setting_is_a_pass_of_this_tensorflow() -> None:
    config = tf.compat.v1.ConfigProto().graph_options.rewrite_options
    assert set(Grappler(remapping=True).passes) <= {f.name for f in config.DESCRIPTOR.fields}


def test_the_kinds_that_changed_most_are_named() -> None:
    own = OptimizedNodes({"A": 9, "B": 3}, {"A": 2, "_FusedB": 1})
    other = OptimizedNodes({"A": 9, "B": 3}, {"A": 7, "B": 1})
    assert nodes_in_words(own, other) == (
        "of 12 nodes of a step 4 removed and 0 fused (TensorFlow's own choice: 9 and 1): "
        "+5 A, +1 B, -1 _FusedB"
    )
    assert nodes_in_words(own, own) == ""


@pytest.mark.tensorflow
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


def _spec() -> Any:
    return (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))


@pytest.mark.tensorflow
def test_a_pass_that_finds_nothing_in_the_step_is_not_applied(train, optimizer):
    optimizer(loop_optimization=False)
    effect = train(Grappler(loop_optimization=False), model=deep).effect
    assert not effect.applied
    assert "loop_optimization = false leaves the graph of a step as it is" in effect.detail


@pytest.mark.tensorflow
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


def test_the_memory_of_gpus_is_set_where_there_is_one() -> None:
    plain, gpu = RuntimeOptions(), machine_with((8, 0))

    def made(machine: Any, **settings: Any) -> RuntimeOptions:
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


@pytest.mark.tensorflow
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
    monkeypatch: pytest.MonkeyPatch,
    growth: bool, limit: int | None, settings: dict[str, Any], applied: bool, said: str,
) -> None:  # fmt: skip
    logical = [tf.config.LogicalDeviceConfiguration(memory_limit=limit)] if limit else None
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["GPU:0"])
    monkeypatch.setattr(tf.config.experimental, "get_memory_growth", lambda gpu: growth)
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: logical)
    effect = GpuMemory(**settings).report_effect(make_run(machine=machine_with((8, 0))))
    assert effect.applied is applied
    assert said in effect.detail


@pytest.mark.tensorflow
def test_without_a_gpu_it_says_so() -> None:
    effect = GpuMemory().report_effect(make_run(machine=CPU))
    assert (effect.applied, "there is no GPU" in effect.detail) == (False, True)
