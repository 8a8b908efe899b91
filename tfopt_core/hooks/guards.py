"""Call a method of a plugin so that an error which it raises names the plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.errors import (
    PluginError,
    PluginRefused,
    TfoptError,
    describe,
    ran_out_of_memory,
)


def guarded(plugin: str, hook: str, call: Callable[[], Any]) -> Any:
    """Call a method of a plugin. Return its value.

    :raises PluginError: for an error of the method, naming plugin and hook.
    """
    try:
        return call()
    except PluginRefused as refusal:
        named = refusal.named(plugin)
        if named is refusal:
            raise  # `from refusal` would make it its own cause
        raise named from refusal
    except (TfoptError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(
            plugin, hook, describe(error), out_of_memory=ran_out_of_memory(error)
        ) from error
