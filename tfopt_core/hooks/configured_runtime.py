"""What the plugins of a stack set of a run's process before it starts."""

from __future__ import annotations

from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.own_loop import reaching
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.hooks.values import Change, Defaults, RuntimeOptions
from tfopt_core.recipe import Recipe


def configured_runtime(
    plugins: tuple[StackedPlugin, ...], machine: Machine, recipe: Recipe
) -> tuple[RuntimeOptions, tuple[Change, ...]]:
    """Return the runtime options by these plugins, and which of them changed what.

    Of a script with a training loop of its own only the plugins that reach such a loop are asked.
    """
    reached = reaching(plugins) if recipe.workload.has_own_loop else plugins
    stack = Stack(reached, Defaults())
    return stack.configure_runtime(machine, recipe), stack.all_changes
