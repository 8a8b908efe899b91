"""Find out what a stack would do, as `tfopt plan` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from tfopt_core.app.check import missing_target
from tfopt_core.app.command_request import temporary_request
from tfopt_core.records.dry_build import Prepared
from tfopt_core.trials.preparation import prepare_in_detail


def plan_recipe(
    target: str,
    overrides: Sequence[str],
    *,
    json_path: Path | None = None,
    debug: bool = False,
) -> tuple[str, Prepared]:
    """Return the name of the recipe, and its dry build in detail.

    :param json_path: where the result will be written.
    :raises InputError: for errors in the recipe.
    :raises PreparationFailed: for an error that would stop every run.
    """
    from tfopt_core.workers.spawn import SpawnRunner

    with temporary_request(
        target, overrides, outputs={"--json": json_path}, debug=debug
    ) as request:
        prepared = prepare_in_detail(request.observed(), SpawnRunner())
        needs = tuple(
            f"`tfopt apply` needs a target: {problem.message}; {problem.mend}"
            for problem in missing_target(request.reading, request.plugins)
        )
        warned = attrs.evolve(prepared, warnings=(*prepared.warnings, *needs))
        return request.recipe.name, warned
