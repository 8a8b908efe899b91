"""The request of a measurement, training or diagnosis: what is asked for, and in which world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import Recipe
from tfopt_core.recipe.reading import Reading
from tfopt_core.records.dry_build import Prepared

# The folder of the project's results that holds what observers wrote, and the variant of their run.
OBSERVED = "observed"


@attrs.frozen(kw_only=True)
class Request:
    """What to measure, and where.

    :param added: the stack of the second contrast, with its settings: the plugins and what is not
        exact; () for none.
    :param observers: the plugins that join one extra, untimed run, and no variant.
    :param folder: the folder of the runs' private folders.
    :param environment: the environment that the runs' processes start from.
    :param reading: the recipe as it was read, for the places of problems.
    :param save_to: where to save the best optimized model, None to save none.
    :param seed: the seed of order and runs, stored with the results; None draws one.
    :param forks: whether the runs of a script may be forks, which its dry build tells.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    machine: Machine
    folder: Path
    environment: Mapping[str, str]
    reading: Reading = attrs.field(factory=lambda: Reading(()), repr=False)
    save_to: Path | None = None
    seed: int | None = None
    debug: bool = False
    observers: tuple[StackedPlugin, ...] = ()
    added: tuple[StackedPlugin, ...] = ()
    forks: bool = False

    @property
    def kept(self) -> Path:
        """The folder for what observers write, which outlives the runs' private folders."""
        return self.folder.parent.parent / OBSERVED / self.folder.name

    def observed(self) -> Request:
        """Return the request with the observers as the last plugins of its stack."""
        return attrs.evolve(self, plugins=(*self.plugins, *self.observers), observers=())


def with_prepared(request: Request, prepared: Prepared) -> Request:
    """Return the request with the resolved plugins, on the machine as TensorFlow sees it."""
    resolved = with_settings(request.plugins, [plan.settings for plan in prepared.plugins])
    machine = attrs.evolve(request.machine, gpus=prepared.gpus)
    return attrs.evolve(request, plugins=resolved, machine=machine, forks=prepared.forks)


def with_settings(
    plugins: Sequence[StackedPlugin], settings: Sequence[Mapping[str, Any]]
) -> tuple[StackedPlugin, ...]:
    """Return the plugins with these settings, which a process has sent."""
    fields = [
        {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        for values in settings
    ]
    return tuple(
        StackedPlugin(stacked.name, type(stacked.plugin)(**values))
        for stacked, values in zip(plugins, fields, strict=True)
    )
