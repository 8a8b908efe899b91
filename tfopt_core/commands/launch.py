"""`tfopt launch`: start all processes of a distributed training on this machine."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, recipe_argument, save_option, set_option


@click.command()
@recipe_argument
@click.option("--workers", type=int, metavar="N", help="Number of workers; else from the recipe.")
@click.option(
    "--parameter-servers",
    type=int,
    metavar="M",
    help="Number of parameter servers; else from the recipe.",
)
@set_option
@save_option
@debug_option
def launch(
    target: str,
    workers: int | None,
    parameter_servers: int | None,
    overrides: tuple[str, ...],
    save_to: Path | None,
    debug: bool,
) -> int:
    """Train RECIPE once, with all its workers on this machine, to try it out.

    To train on several machines, start `tfopt train` on each of them.
    """
    from tfopt_core.app.launch import make_cluster_request, train_cluster
    from tfopt_core.report.roles import epoch_of_role, render_ends, render_roles
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.training import epoch_line, render_training

    request = make_cluster_request(
        target, overrides, workers=workers, parameter_servers=parameter_servers, save_to=save_to,
        debug=debug,
    )  # fmt: skip
    console = make_console()
    trained, ended = train_cluster(
        request,
        on_roles=lambda roles: console.print(render_roles(roles)),
        on_epoch=lambda epoch, epochs, metrics: console.print(epoch_line(epoch, epochs, metrics)),
        on_epoch_of=lambda role, message: console.print(epoch_of_role(role, message)),
    )
    console.print(render_training(trained.run, trained.prepared, trained.saved_to))
    console.print(render_ends(ended, trained.run.output_tail))
    return 0 if trained.run.ok else 3
