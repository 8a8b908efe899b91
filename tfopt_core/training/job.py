"""The description of one training that a process needs to build it, and of its checkpoints.

No TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.hooks.values import Change, RuntimeOptions
from tfopt_core.recipe.model import Recipe
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

    def context(
        self, stack: Stack, *, epochs: int = 0, batch_size: int | None = None, **more: Any
    ) -> RunContext:
        """Return the context in which the stack's hooks are called first."""
        return RunContext(
            seed=self.seed, variant=self.variant, epochs=epochs, batch_size=batch_size,
            machine=self.machine, settings=stack.settings, folder=self.folder,
            directory=self.recipe.directory, kept=self.kept, **more,
        )  # fmt: skip


@attrs.frozen(kw_only=True)
class CheckpointConfig:
    """Where a training writes checkpoints, and from which one it resumes.

    :param start: the name of the checkpoint to resume from, None to train from the beginning.
    :param about: a description of the training, which each checkpoint holds.
    """

    folder: Path
    start: str | None = None
    about: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ResumePoint:
    """The checkpoints of a training, and the one that it resumes from.

    :param start: the file to resume from, None to train from the start; `values` are its content.
    :param damaged: newer checkpoints that were passed over.
    :param moved: the differences of the machine since then, in words.
    :param code: the facts that the training depends on, by name.
    """

    folder: Path
    start: str | None = None
    values: Mapping[str, Any] = attrs.field(factory=dict)
    damaged: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    code: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return bool(self.values.get("finished"))

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        return int(self.values.get("epochs", 0))
