"""Helpers for those who test plugins: contexts for their hooks, and a check of the contract.

from tfopt_core.testing import check_plugin, make_run

def test_conforms():
    check_plugin("my-plugin", MyPlugin)

def test_doubles_the_threads():
    before = RuntimeOptions(intra_op_threads=2)
    after = MyPlugin().configure_runtime(options=before)
    assert after.intra_op_threads == 4
"""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.hooks import Machine, RunContext
from tfopt_core.hooks.card import card, equivalence_of, traits
from tfopt_core.hooks.contract import check_class, check_hooks
from tfopt_core.hooks.installed.settings import declared_range
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.hooks.values import Defaults
from tfopt_core.recipe.values import field_types

GIB = 2**30


def make_machine(**changes: Any) -> Machine:
    """A machine of two plain CPUs with 8 GiB and no GPU, unless told otherwise."""
    plain: dict[str, Any] = {
        "system": "Linux",
        "cpu_model": "a plain CPU",
        "cpu_count": 2,
        "cpu_count_total": 2,
        "memory_bytes": 8 * GIB,
    }
    return Machine(**{**plain, **changes})


def make_run(**changes: Any) -> RunContext:
    """The context of a run of two epochs of ten steps of 32, unless told otherwise."""
    plain: dict[str, Any] = {
        "seed": 1,
        "variant": "full",
        "epochs": 2,
        "batch_size": 32,
        "steps_per_epoch": 10,
        "machine": make_machine(),
        "folder": Path(tempfile.gettempdir()),
    }
    return RunContext(**{**plain, **changes})


class GivenValues(Defaults):
    """Defaults that return what a test gives them, hook by hook."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def configure_runtime(self, machine: Any, recipe: Any) -> Any:
        """The given value, else TensorFlow's own choices."""
        return self._values.get("configure_runtime") or super().configure_runtime(machine, recipe)

    def configure_precision(self, run: Any) -> Any:
        """The given value, else float32."""
        return self._values.get("configure_precision") or super().configure_precision(run)

    def build_dataset(self, run: Any, split: Any) -> Any:
        """The given value."""
        return self._values["build_dataset"]

    def wrap_model(self, run: Any) -> Any:
        """The given value."""
        return self._values["wrap_model"]

    def configure_training(self, run: Any, model: Any) -> Any:
        """The given value."""
        return self._values["configure_training"]


def stack_of(*plugins: Any, **values: Any) -> Stack:
    """A stack of plugin instances, named by their classes, over the given values."""
    named = [StackedPlugin(type(plugin).__name__, plugin) for plugin in plugins]
    return Stack(named, GivenValues(**values))


def check_plugin(name: str, plugin_class: type[Any], **settings: Any) -> None:
    """Check a plugin class against everything that can be asked of it without training.

    :param settings: for a class some of whose settings have no default.
    :raises PluginDefinitionError: with the first thing that is wrong.
    """
    check_class(name, plugin_class)
    plugin = plugin_class(**settings)
    check_hooks(name, plugin_class)
    traits(name, plugin_class)
    equivalence_of(name, plugin)
    said = card(plugin_class)
    if not said.summary:
        raise PluginDefinitionError(name, "has no docstring; its first line is its summary")
    if said.missing:
        raise PluginDefinitionError(name, f"its card lacks: {', '.join(said.missing)}")
    types = field_types(plugin_class)
    for attribute in attrs.fields(plugin_class):
        if not attribute.metadata.get("help"):
            raise PluginDefinitionError(
                name, f'the setting "{attribute.name}" has no help; add help="..."'
            )
        declared_range(name, attribute, types[attribute.name])
    try:
        compile(plugin.by_hand() or "", name, "exec")
    except (SyntaxError, TypeError) as error:
        raise PluginDefinitionError(name, f"by_hand() gives no Python code: {error}") from error
    # a run's process gets the plugin through a pipe
    if (
        StackedPlugin(name, pickle.loads(pickle.dumps(plugin))).settings
        != StackedPlugin(name, plugin).settings
    ):
        raise PluginDefinitionError(name, "does not survive pickling")
