"""Which plugins reach a script's own training loop, and so what a stack sets of a process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.specs import VALUE_HOOKS
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.hooks.values import Change, PrecisionPolicy, RuntimeOptions
from tfopt_core.recipe.model import Recipe

# The hooks that act without `compile` and `fit`: before the model is built, on data, at the end.
REACHING = frozenset({
    "configure_runtime", "configure_precision", "build_strategy", "build_dataset", "report_effect",
})  # fmt: skip


def why_not_reached(plugin_class: type[Any]) -> str:
    """Return why a plugin does not reach such a loop, "" if it does.

    It does if all its hooks act without `compile` and `fit`, unless its class attribute `own_loop`
    says False, or it changes the model.
    """
    if not plugin_class.own_loop:
        return "it declares that it does not reach a loop of the script's own"
    if plugin_class.model_change != "none":
        return "it changes the model, which a loop of the script's own uses as it was built"
    hooks = implementations(plugin_class)
    beyond = [hook for hook in (*VALUE_HOOKS, *hooks) if hook in hooks and hook not in REACHING]
    where = "at a call of compile or fit, and this script trains in a loop of its own"
    return f"it works through {beyond[0]}, {where}" if beyond else ""


def check_precision(precision: PrecisionPolicy) -> None:
    """Check that a loop of the script's own trains right in this precision.

    :raises WorkloadError: for float16, whose loss the loop would have to scale itself, and for a
        policy that is set when `fit` is called.
    """
    if precision.policy == "mixed_float16":
        raise WorkloadError(
            "float16 needs a scaled loss, which a loop of the script's own would have to scale "
            "itself; take mixed_bfloat16"
        )
    if precision.policy != "float32" and precision.scope == "layers":
        raise WorkloadError(
            'scope = "layers" sets the precision when fit is called, and this script trains in a '
            'loop of its own; take scope = "global"'
        )


def reaching(plugins: Iterable[StackedPlugin]) -> tuple[StackedPlugin, ...]:
    """Return the plugins of a stack that reach such a loop, in their order."""
    return tuple(p for p in plugins if not why_not_reached(type(p.plugin)))


def configured_runtime(
    plugins: tuple[StackedPlugin, ...], machine: Machine, recipe: Recipe
) -> tuple[RuntimeOptions, tuple[Change, ...]]:
    """Return the runtime options by these plugins, and which of them changed what.

    Of a script with a training loop of its own only the plugins that reach such a loop are asked.
    """
    reached = reaching(plugins) if recipe.workload.has_own_loop else plugins
    stack = Stack(reached)
    return stack.configure_runtime(machine, recipe), stack.all_changes
