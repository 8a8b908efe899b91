"""The description of one training that a process needs to build it. No TensorFlow."""

from __future__ import annotations

from pathlib import Path

import attrs

from tfopt_core.hooks import Change, Machine, RuntimeOptions
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import Recipe
from tfopt_core.training.workload import Workload


@attrs.frozen(kw_only=True)
class Job:
    """One training: its recipe, its stack, its seed and the variant's name.

    `folder` is private to the run: caches go there; `kept` is for what observers write. The parent
    process has configured `runtime` already, and `runtime_changes` lists which plugin set which of
    its options.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    variant: str
    seed: int
    machine: Machine
    folder: Path
    kept: Path = attrs.field(
        default=attrs.Factory(lambda self: self.folder / "kept", takes_self=True)
    )
    runtime: RuntimeOptions = attrs.field(factory=RuntimeOptions)
    runtime_changes: tuple[Change, ...] = ()

    def epochs(self, workload: Workload) -> int:
        """Return the recipe's epochs, else the workload's."""
        return self.recipe.workload.epochs or workload.epochs
