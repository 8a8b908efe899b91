"""Find the checkpoint for `tfopt train --resume`, and check that it fits.

TensorFlow is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
from cattrs import structure, unstructure

from tfopt_core.errors import InputError
from tfopt_core.measurement.fingerprint import OF_THE_PLACE, differences, fingerprint
from tfopt_core.measurement.resume import recipe_differences
from tfopt_core.records.dry_build import Prepared
from tfopt_core.training.checkpoints.config import CheckpointConfig, ResumePoint
from tfopt_core.training.checkpoints.folder import make_ours, names_in, newest_in
from tfopt_core.trials.request import Request, with_prepared

FOLDER = "checkpoints"


def resumed(point: ResumePoint, request: Request) -> tuple[Prepared, Request] | None:
    """Return the dry build of the training to resume, and the request with its seed and settings.

    Return None if there is no checkpoint.
    """
    if point.start is None:
        return None
    prepared = structure(point.values["about"]["prepared"], Prepared)
    gpus = request.machine.gpus if point.moved else prepared.gpus
    prepared = attrs.evolve(prepared, gpus=gpus)
    request = attrs.evolve(request, seed=point.values["seed"])
    return prepared, with_prepared(request, prepared)


def checkpoint_config(point: ResumePoint, request: Request, prepared: Prepared) -> CheckpointConfig:
    """Return the checkpoint settings of the training's process."""
    about = {
        "recipe": request.recipe.to_dict(),
        "fingerprint": dict(point.code),
        "prepared": unstructure(prepared),
    }
    return CheckpointConfig(folder=point.folder, start=point.start, about=about)


def open_checkpoints(request: Request, folder: Path, *, resume: bool) -> ResumePoint:
    """Create the folder, and find the newest valid checkpoint in it.

    :param resume: whether to resume from it; otherwise there must be none.
    :raises InputError: if the folder holds other files, or checkpoints although `resume` is False,
        if all checkpoints are damaged, or if recipe, code, versions or environment have changed
        since the training began.
    """
    folder = folder.absolute()
    make_ours(folder)
    # independent of the project's path
    root = str(request.recipe.directory.resolve())
    code = {name.replace(root, "."): value for name, value in fingerprint(request).items()}
    if not resume:
        if names_in(folder):
            raise InputError(f'there are checkpoints already; use --resume, or remove "{folder}"')
        return ResumePoint(folder=folder, code=code)
    newest = newest_in(folder)
    if newest.checkpoint is None:
        if newest.damaged:
            raise InputError(
                f'all checkpoints in "{folder}" are damaged ({", ".join(newest.damaged)}); remove '
                "the folder to start again"
            )
        return ResumePoint(folder=folder, code=code)
    values = newest.checkpoint.values
    about = values["about"]
    changed = [
        *recipe_differences(about["recipe"], request.recipe.to_dict()),
        *differences(*_parts(about["fingerprint"], code, of_the_place=False)),
    ]
    if changed:
        raise InputError(
            f'the training in "{folder}" cannot be resumed: {"; ".join(changed)}; undo that, or '
            "name another folder by --checkpoints to start again"
        )
    if request.seed not in (None, values["seed"]):
        raise InputError(
            f'the training in "{folder}" has the seed {values["seed"]}; leave --seed out'
        )
    return ResumePoint(
        folder=folder,
        start=newest.name,
        values=values,
        damaged=newest.damaged,
        moved=differences(*_parts(about["fingerprint"], code, of_the_place=True)),
        code=code,
    )


def after_interruption(point: ResumePoint) -> ResumePoint:
    """Return where a training that was just interrupted resumes."""
    newest = newest_in(point.folder)
    values = {} if newest.checkpoint is None else newest.checkpoint.values
    return attrs.evolve(point, start=newest.name, values=values)


def _parts(*sides: Mapping[str, str], of_the_place: bool) -> list[dict[str, str]]:
    """Return of each side the facts of the machine, or those of the training."""
    return [
        {name: value for name, value in facts.items() if (name in OF_THE_PLACE) is of_the_place}
        for facts in sides
    ]
