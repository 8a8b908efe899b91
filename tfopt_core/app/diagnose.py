"""Diagnose a recipe, as `tfopt diagnose` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.command_request import temporary_request

if TYPE_CHECKING:
    from tfopt_core.app.view import View
    from tfopt_core.records.diagnosis import Diagnosed


def diagnose_recipe(
    target: str,
    overrides: Sequence[str],
    view: View,
    *,
    stacked: bool = False,
    json_path: Path | None = None,
    debug: bool = False,
) -> Diagnosed:
    """Measure the parts of a step of the recipe's workload.

    :param view: shows the progress.
    :param stacked: with the stack of the recipe, not the baseline.
    :param json_path: where the result will be written.
    :raises InputError: for errors in the recipe.
    :raises PreparationFailed: for another error that would stop a training.
    """
    from tfopt_core.diagnosis.process import diagnose
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.workers.spawn import SpawnRunner

    with (
        temporary_request(target, overrides, outputs={"--json": json_path}, debug=debug) as request,
        view.phases() as on_phase,
    ):
        if not stacked:
            request = attrs.evolve(request, plugins=())
        on_phase("looking at the plugins that are installed")
        return diagnose(request, SpawnRunner(), inspect_plugins(), on_phase)
