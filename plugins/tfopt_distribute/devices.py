"""TensorFlow's logical devices, as strategies name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfopt_core.plugins import PluginRefused


def logical_devices() -> tuple[str, ...]:
    """Return the devices that TensorFlow sees, as `cpu:0`."""
    import tensorflow as tf

    found = tf.config.list_logical_devices()
    return tuple(device.name.removeprefix("/device:").lower() for device in found)


def check_devices(devices: Iterable[str]) -> None:
    """:raises PluginRefused: for a device, as `/gpu:0`, that TensorFlow does not see."""
    there = logical_devices()
    for device in devices:
        if device.lower().removeprefix("/").removeprefix("device:") not in there:
            raise PluginRefused(
                f'there is no device "{device}"; TensorFlow sees {", ".join(there)}'
            )


def devices_of(strategy: Any) -> list[str]:
    """Return the devices of a strategy on this machine, as `GPU:0`."""
    return [device.rpartition("device:")[2] for device in strategy.extended.worker_devices]
