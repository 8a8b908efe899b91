"""Strategies: one device, mirrored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.plugin_drive import CPU, Driven, FakeProbe, machine_with
from tfopt_distribute.mirrored import Mirrored, choose_devices
from tfopt_distribute.one_device import OneDevice

from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_run


def test_auto_takes_the_first_gpu_or_the_cpu() -> None:
    assert OneDevice().resolve(FakeProbe(machine=CPU)).device == "/cpu:0"
    assert OneDevice().resolve(FakeProbe(machine=machine_with((8, 0)))).device == "/gpu:0"


@pytest.mark.tensorflow
def test_one_device_reads_strategy_and_device_back(train: Callable[..., Driven]) -> None:
    effect = train(OneDevice(device="/cpu:0")).effect
    assert effect.applied
    assert "OneDeviceStrategy" in effect.detail
    assert "cpu:0" in effect.detail.lower()


@pytest.mark.tensorflow
def test_one_device_leaves_a_generator_where_plain_keras_does() -> None:
    """Distributed data are read ahead, and a second fit would go on further behind."""
    import tensorflow as tf

    strategy = OneDevice(device="/cpu:0").build_strategy(make_run())
    data = tf.data.Dataset.range(3)
    assert strategy.experimental_distribute_dataset(data) is data
    assert int(strategy.run(lambda x: x, (next(iter(data)),))) == 0


@pytest.mark.tensorflow
def test_missing_device_is_refused(train: Callable[..., Driven]) -> None:
    with pytest.raises(PluginRefused, match=r'no device "/gpu:9"; TensorFlow sees cpu:0'):
        train(OneDevice(device="/gpu:9"))


def test_a_machine_without_a_gpu_is_refused_with_the_mend() -> None:
    with pytest.raises(PluginRefused, match="logical_cpu_devices = 2"):
        choose_devices((), None, 0)


@pytest.mark.tensorflow
def test_one_device_trains_as_a_baseline(train: Callable[..., Driven]) -> None:
    assert choose_devices((), None, 1) == ("/gpu:0",)
    assert choose_devices(("/gpu:3",), None, 4) == ("/gpu:3",)
    effect = train(Mirrored(devices=("/cpu:0",))).effect
    assert not effect.applied
    assert effect.detail == "the strategy has one replica, on CPU:0"


def test_devices_are_those_asked_for_else_logical_cpus_else_all_gpus() -> None:
    assert choose_devices(("/gpu:1", "/gpu:3"), None, 4) == ("/gpu:1", "/gpu:3")
    assert choose_devices((), 2, 4) == ("/cpu:0", "/cpu:1")
    assert choose_devices((), None, 2) == ("/gpu:0", "/gpu:1")


def test_logical_devices_are_runtime_options() -> None:
    stack = Stack([StackedPlugin("mirrored", Mirrored(logical_cpu_devices=2))])
    options = stack.configure_runtime(CPU, None)  # type: ignore[arg-type]
    assert options.logical_cpu_devices == 2
