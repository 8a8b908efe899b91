"""One training, described: what a process needs to know to build it. No TensorFlow."""

from __future__ import annotations

from pathlib import Path

import attrs

from tfopt_core.hooks import Change, Machine, RuntimeOptions
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import Recipe
from tfopt_core.training.workload import Workload


@attrs.frozen(kw_only=True)
class Job:
    """One training: what, with which stack, under which seed and name.

    `folder` is private to the run: caches go there. `runtime` is in effect already, configured
    by the parent process, and `runtime_changes` say which plugin set what of it.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    variant: str
    seed: int
    machine: Machine
    folder: Path
    runtime: RuntimeOptions = attrs.field(factory=RuntimeOptions)
    runtime_changes: tuple[Change, ...] = ()

    def epochs(self, workload: Workload) -> int:
        """The recipe's epochs, else the workload's."""
        return self.recipe.workload.epochs or workload.epochs
