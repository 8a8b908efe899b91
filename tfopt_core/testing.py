"""Helpers for those who test plugins: contexts for their hooks, and a check of the contract.

from tfopt_core.testing import check_plugin, make_diagnosis

def test_conforms():
    check_plugin("my-plugin", MyPlugin)

def test_is_suggested_where_input_takes_time():
    assert MyPlugin().suggest(make_diagnosis(input_seconds=0.008)) == {}

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

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginDefinitionError
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.contract import check_class
from tfopt_core.hooks.diagnosis import PARTS, Diagnosis
from tfopt_core.hooks.installed.inspection import declared_range
from tfopt_core.hooks.installed.suggest import suggested
from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.plugin_class import HEADINGS, card, equivalence_of
from tfopt_core.hooks.stack import Stack, StackedPlugin
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


def make_diagnosis(**changes: Any) -> Diagnosis:
    """The diagnosis of a step of 10 ms that waits 4 ms for input, takes 2 ms to start and 4 ms to
    compute, with no finding, unless told otherwise: `step_seconds` is the sum of these parts. Its
    data are ten batches of 32 numbers."""
    numbers = DataPlan.from_arrays([0.0] * 320)
    plain: dict[str, Any] = {
        "machine": make_machine(),
        "plans": {"train": numbers.shuffle(320).batch(32), "validation": numbers.batch(32)},
        "epochs": 2, "steps_per_epoch": 10, "batch_size": 32, "examples": 320,
        "example_bytes": 8.0, "available_memory_bytes": 4 * GIB, "trainable_parameters": 1000,
        "policy": "float32", "jit_compile": False, "supports_jit": True,
        "input_seconds": 0.004, "dispatch_seconds": 0.002, "compute_seconds": 0.004,
        "data_seconds": 0.004,
    }  # fmt: skip
    asked = {**plain, **changes}
    asked.setdefault("step_seconds", sum(asked[f"{part}_seconds"] for part in PARTS))
    return Diagnosis(**asked)


def stack_of(*plugins: Any, **values: Any) -> Stack:
    """A stack of plugin instances, named by their classes, over the given values, by hook."""
    named = [StackedPlugin(type(plugin).__name__, plugin) for plugin in plugins]
    return Stack(named, **values)


def check_plugin(name: str, plugin_class: type[Any], **settings: Any) -> None:
    """Check a plugin class against everything that can be asked of it without training.

    :param settings: for a class some of whose settings have no default.
    :raises PluginDefinitionError: with the first thing that is wrong.
    """
    check_class(name, plugin_class)
    plugin = plugin_class(**settings)
    equivalence_of(name, plugin)
    summary, sections = card(plugin_class)
    if not summary:
        raise PluginDefinitionError(name, "has no docstring; its first line is its summary")
    if missing := [heading for heading in HEADINGS if heading not in dict(sections)]:
        raise PluginDefinitionError(name, f"its card lacks: {', '.join(missing)}")
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
    try:
        suggested(plugin_class, make_diagnosis())
        suggested(plugin_class, make_diagnosis().exact_only())
    except Exception as error:  # whatever the plugin's own code raises
        raise PluginDefinitionError(name, f"suggest(diagnosis) fails: {error!r}") from error
    # a run's process gets the plugin through a pipe
    if (
        StackedPlugin(name, pickle.loads(pickle.dumps(plugin))).settings
        != StackedPlugin(name, plugin).settings
    ):
        raise PluginDefinitionError(name, "does not survive pickling")
