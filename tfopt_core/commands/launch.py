"""`tfopt launch`: start all processes of a distributed training on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.commands.options import debug_option, recipe_argument, save_option, set_option
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from tfopt_core.records.messages import Progress
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.local_cluster import Role, RoleEnd


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
    from tfopt_core.commands.training import train_once
    from tfopt_core.records.messages import EpochDone
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.training import (
        epoch_line,
        epoch_of_role,
        render_ends,
        render_roles,
        render_training,
    )
    from tfopt_core.workers.local_cluster import Listener, LocalCluster
    from tfopt_core.workers.spawn import SpawnRunner
    from tfopt_core.workers.supervise import NO_LIMITS

    request = make_cluster_request(
        target, overrides, workers=workers, parameter_servers=parameter_servers, save_to=save_to,
        debug=debug,
    )  # fmt: skip
    console = make_console()
    ended: list[RoleEnd] = []

    def on_message(role: Role, message: Progress) -> None:
        if isinstance(message, EpochDone):
            console.print(epoch_of_role(role, message))

    runner = LocalCluster(
        inner=SpawnRunner(),
        # the mixed output of several processes is unreadable: each writes to a file
        spawn=SpawnRunner(limits=NO_LIMITS),
        listener=Listener(
            on_begin=lambda roles: console.print(render_roles(roles)),
            on_message=on_message,
            on_end=ended.extend,
        ),
    )
    trained = train_once(
        request, SpawnRunner(), runner, lambda *epoch: console.print(epoch_line(*epoch))
    )
    console.print(render_training(trained.run, trained.prepared, trained.saved_to))
    console.print(render_ends(ended, trained.run.output_tail))
    return 0 if trained.run.ok else 3


def make_cluster_request(
    target: str,
    overrides: Sequence[str],
    *,
    workers: int | None,
    parameter_servers: int | None,
    save_to: Path | None = None,
    debug: bool = False,
) -> Request:
    """Return the request of a training whose processes are all started on this machine.

    :param workers, parameter_servers: the number of each; None for those of the recipe.
    :raises InputError: for errors in the recipe, and for a stack that trains in one process.
    """
    from tfopt_core.commands.check import refuse_script
    from tfopt_core.commands.request import check_none_described, make_request
    from tfopt_core.hooks.stack import Stack

    check_none_described(os.environ, "launch")
    refuse_script(target, "tfopt launch")

    def make(overrides: Sequence[str]) -> Request:
        return make_request(target, overrides, compares=False, save_to=save_to, debug=debug)[0]

    request = make(overrides)
    stack = Stack(request.plugins)
    stack.configure_runtime(request.machine, request.recipe)
    owners = [one.plugin for one in stack.all_changes if one.after.cluster != one.before.cluster]
    if not owners:
        raise InputError(
            '"launch" needs a plugin that trains over several processes; add one to the stack '
            "(`tfopt plugins` lists them), or use `tfopt train`"
        )
    counts = {"workers": workers, "parameter_servers": parameter_servers}
    changes = [f"plugins.{owners[0]}.{key}={n}" for key, n in counts.items() if n is not None]
    return make([*overrides, *changes]) if changes else request
