"""`tfopt train`: train once with the stack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.commands.options import debug_option, recipe_argument, save_option, set_option
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from tfopt_core.training.job import ResumePoint
    from tfopt_core.trials.request import Request


@click.command()
@recipe_argument
@set_option
@save_option
@click.option(
    "--resume", is_flag=True,
    help="Write a checkpoint after each epoch, and resume from the newest one, if there is one: "
    "repeat the same command until the training is done.",
)  # fmt: skip
@click.option(
    "--checkpoints", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Folder of the last two checkpoints, instead of .tfopt/checkpoints/NAME.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(1, 2**31 - 1), metavar="N",
    help="The training's seed, by default random; a resumed training keeps its own.",
)  # fmt: skip
@debug_option
def train(
    target: str,
    overrides: tuple[str, ...],
    save_to: Path | None,
    resume: bool,
    folder: Path | None,
    seed: int | None,
    debug: bool,
) -> int:
    """Train RECIPE once with its stack, without a baseline.

    For production use. The output of the workload is shown. RECIPE may be a script, train.py, which
    has no stack.
    """
    import attrs

    from tfopt_core.commands.request import cluster_of, make_request
    from tfopt_core.commands.training import (
        after_interruption,
        runners_of,
        train_once,
        train_script,
    )
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.training import (
        epoch_line,
        render_last_checkpoint,
        render_resume_point,
        render_script,
        render_training,
    )

    request, results = make_request(target, overrides, compares=False, save_to=save_to, debug=debug)
    request = attrs.evolve(request.observed(), seed=seed)
    point = checkpoints_of(request, results, resume=resume, folder=folder)
    console = make_console()
    if request.recipe.workload.is_script:
        with runners_of(request) as (quiet, aloud):
            run = train_script(request, quiet, aloud)
        console.print(render_script(run, request.save_to))
        return 3 if run.exit_status is None else run.exit_status
    if point is not None:
        console.print(render_resume_point(point))
        # others of a cluster may have been started with --save, and wait for this one
        if point.finished and save_to is None and cluster_of(request) is None:
            return 0
    try:
        with runners_of(request) as (quiet, aloud):
            trained = train_once(
                request,
                quiet,
                aloud,
                on_epoch=lambda *epoch: console.print(epoch_line(*epoch)),
                point=point,
                on_note=lambda text: console.print(f"note: {text}", markup=False, highlight=False),
            )
    except KeyboardInterrupt:
        if point is not None:
            console.print(render_last_checkpoint(after_interruption(point)))
        raise
    resumed = point is not None and point.start is not None
    run, prepared = trained.run, trained.prepared
    console.print(render_training(run, prepared, trained.saved_to, resumed=resumed))
    return 0 if run.ok or run.status == "served" else 3


def checkpoints_of(
    request: Request, results: Path, *, resume: bool, folder: Path | None
) -> ResumePoint | None:
    """Return the checkpoints that the options ask for, None if none are wanted.

    :param results: the folder of the project's results.
    :raises InputError: see `open_checkpoints`.
    """
    if not resume and folder is None:
        return None
    from tfopt_core.commands.training import FOLDER, open_checkpoints

    if request.recipe.workload.is_script:
        raise InputError(
            "a script keeps its own checkpoints (keras.callbacks.BackupAndRestore); tfopt's need a "
            "factory: leave --resume and --checkpoints out"
        )
    if folder is None:
        # ".." and "." are names of recipes too
        folder = results / FOLDER / re.sub(r"[^\w.-]+|^\.+", "-", request.recipe.name)
    return open_checkpoints(request, folder, resume=resume)
