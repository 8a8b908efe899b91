"""`tfopt train` and `tfopt launch`: train once with the stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.report.style.console import make_console

if TYPE_CHECKING:
    from tfopt_core.training.messages import Message
    from tfopt_core.workers.local_cluster import Role, RoleEnd


@click.command()
@shared.recipe_argument
@shared.set_option
@shared.save_option
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
@shared.debug_option
def train(
    target: str, overrides: tuple[str, ...], save_to: Path | None, resume: bool,
    folder: Path | None, seed: int | None, debug: bool,
) -> int:  # fmt: skip
    """Train RECIPE once with its stack, without a baseline.

    For production use. The output of the workload is shown. RECIPE may be a script, train.py, which
    has no stack.
    """
    from tfopt_core.commands import training as once
    from tfopt_core.commands.request import cluster_of, make_request
    from tfopt_core.report import training as pages

    request, results = make_request(target, overrides, compares=False, save_to=save_to, debug=debug)
    request = attrs.evolve(request.observed(), seed=seed)
    point = once.checkpoints_of(request, results, resume=resume, folder=folder)
    console = make_console()
    if request.recipe.workload.is_script:
        with once.runners_of(request) as (quiet, aloud):
            run = once.train_script(request, quiet, aloud)
        console.print(pages.render_script(run, request.save_to))
        return 3 if run.exit_status is None else run.exit_status
    if point is not None:
        console.print(pages.render_resume_point(point))
        # others of a cluster may have been started with --save, and wait for this one
        if point.finished and save_to is None and cluster_of(request) is None:
            return 0
    try:
        with once.runners_of(request) as (quiet, aloud):
            run, saved_to = once.train_once(
                request, quiet, aloud, point=point,
                on_epoch=lambda *epoch: console.print(pages.epoch_line(*epoch)),
                on_note=lambda text: console.print(f"note: {text}", markup=False, highlight=False),
            )  # fmt: skip
    except KeyboardInterrupt:
        if point is not None:
            from tfopt_core.training.checkpoints.folder import newest_in

            console.print(pages.render_last_checkpoint(newest_in(point.folder)))
        raise
    resumed = point is not None and point.start is not None
    console.print(pages.render_training(run, saved_to, resumed=resumed))
    return 0 if run.ok or run.status == "served" else 3


@click.command()
@shared.recipe_argument
@click.option("--workers", type=int, metavar="N", help="Number of workers; else from the recipe.")
@click.option(
    "--parameter-servers", type=int, metavar="M",
    help="Number of parameter servers; else from the recipe.",
)  # fmt: skip
@shared.set_option
@shared.save_option
@shared.debug_option
def launch(target: str, overrides: tuple[str, ...], **options: Any) -> int:
    """Train RECIPE once, with all its workers on this machine, to try it out.

    To train on several machines, start `tfopt train` on each of them.
    """
    from tfopt_core.commands.training import make_cluster_request, train_once
    from tfopt_core.report import training as pages
    from tfopt_core.training.messages import EpochDone
    from tfopt_core.workers.local_cluster import LocalCluster
    from tfopt_core.workers.spawn import SpawnRunner
    from tfopt_core.workers.supervise import NO_LIMITS

    request = make_cluster_request(target, overrides, **options)
    console = make_console()
    ended: list[RoleEnd] = []

    def on_message(role: Role, message: Message) -> None:
        if isinstance(message, EpochDone):
            console.print(pages.epoch_of_role(role, message))

    runner = LocalCluster(
        # the mixed output of several processes is unreadable: each writes to a file
        spawn=SpawnRunner(limits=NO_LIMITS),
        on_begin=lambda roles: console.print(pages.render_roles(roles)),
        on_message=on_message,
        on_end=ended.extend,
    )
    run, saved_to = train_once(
        request, SpawnRunner(), runner, lambda *epoch: console.print(pages.epoch_line(*epoch))
    )
    console.print(pages.render_training(run, saved_to))
    console.print(pages.render_ends(ended, run.output_tail))
    return 0 if run.ok else 3
