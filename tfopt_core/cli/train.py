"""`tfopt train`: once, with the stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.cli.options import debug_option, save_option, set_option

if TYPE_CHECKING:
    from rich.console import Console

    from tfopt_core.trials.request import Request


@click.command()
@click.argument("target", metavar="RECIPE")
@set_option
@save_option
@click.option(
    "--adapt", is_flag=True,
    help="Compare exact loops (steps a call, XLA) in the first seconds, and keep the fastest.",
)  # fmt: skip
@click.option(
    "--resume", is_flag=True,
    help="Keep checkpoints at the ends of epochs, and go on from the newest one, if there is one: "
    "the same command can be repeated until it is done.",
)  # fmt: skip
@click.option(
    "--checkpoint-every", "every", type=click.IntRange(min=1), metavar="N",
    help="Write a checkpoint every N steps too.",
)  # fmt: skip
@click.option(
    "--checkpoints", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Where checkpoints are kept, in place of .tfopt/checkpoints/NAME; the last two are.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(1, 2**31 - 1), metavar="N",
    help="The training's seed, random if left out; a training that goes on keeps its own.",
)  # fmt: skip
@debug_option
def train(
    target: str,
    overrides: tuple[str, ...],
    save_to: Path | None,
    adapt: bool,
    resume: bool,
    every: int | None,
    folder: Path | None,
    seed: int | None,
    debug: bool,
) -> int:
    """Train RECIPE once with its stack, without a baseline.

    For production use: what the workload prints passes through.
    """
    import attrs

    from tfopt_core.app.clustered import cluster_of
    from tfopt_core.app.command_request import checkpoints_of, make_request
    from tfopt_core.app.train import train_once
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.training import (
        epoch_line,
        render_adapted,
        render_kept,
        render_training,
    )
    from tfopt_core.workers.fork import ForkRunner
    from tfopt_core.workers.spawn import SpawnRunner
    from tfopt_core.workers.supervise import NO_LIMITS

    request, results = make_request(target, overrides, compares=False, save_to=save_to, debug=debug)
    request = attrs.evolve(request, seed=seed)
    kept = checkpoints_of(request, results, resume=resume, every=every, folder=folder, adapt=adapt)
    console = make_console()
    if request.recipe.workload.script is not None:
        return _train_script(request, console, adapt=adapt)
    if kept is not None:
        console.print(render_kept(kept))
        # others of a cluster may have been started with --save, and wait for this one
        if kept.finished and save_to is None and cluster_of(request) is None:
            return 0
    aloud = SpawnRunner(capture=False, limits=NO_LIMITS)
    with ForkRunner(SpawnRunner()) as quiet:
        # the dry build and the training are forks of one process, which starts TensorFlow once; a
        # process of a cluster must be the first to use it
        alone = cluster_of(request) is None
        trained = train_once(
            request,
            quiet if alone else SpawnRunner(),
            quiet.with_spawn(aloud) if alone else aloud,
            on_epoch=lambda number, all_, metrics: console.print(epoch_line(number, all_, metrics)),
            on_adapted=(lambda adapted: console.print(render_adapted(adapted))) if adapt else None,
            point=kept,
            on_note=lambda text: console.print(f"note: {text}", markup=False, highlight=False),
        )
    went_on = kept is not None and kept.start is not None
    run, prepared = trained.run, trained.prepared
    console.print(render_training(run, prepared, trained.saved_to, went_on=went_on))
    return 0 if run.ok or run.status == "served" else 3


def _train_script(request: Request, console: Console, *, adapt: bool) -> int:
    """Run a script; its own status."""
    from tfopt_core.app.train_script import train_script
    from tfopt_core.report.training import render_adapted, render_script
    from tfopt_core.workers.spawn import SpawnRunner
    from tfopt_core.workers.supervise import NO_LIMITS

    run = train_script(
        request,
        SpawnRunner(),
        SpawnRunner(capture=False, limits=NO_LIMITS),
        on_adapted=(lambda adapted: console.print(render_adapted(adapted))) if adapt else None,
    )
    console.print(render_script(run, request.save_to))
    return 3 if run.exit_status is None else run.exit_status
