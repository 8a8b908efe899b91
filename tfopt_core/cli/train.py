"""`tfopt train`: once, with the stack."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option, save_option, set_option


@click.command()
@click.argument("target", metavar="RECIPE")
@set_option
@save_option
@click.option(
    "--adapt", is_flag=True,
    help="Compare exact loops (steps a call, XLA) in the first seconds, and keep the fastest.",
)  # fmt: skip
@debug_option
def train(
    target: str, overrides: tuple[str, ...], save_to: Path | None, adapt: bool, debug: bool
) -> int:
    """Train RECIPE once with its stack, without a baseline.

    For production use: what the workload prints passes through.
    """
    from tfopt_core.cli.request import make_request
    from tfopt_core.measure.isolate import SpawnRunner
    from tfopt_core.measure.once import train_once
    from tfopt_core.measure.supervise import NO_LIMITS
    from tfopt_core.report.console import make_console
    from tfopt_core.report.training import epoch_line, render_adapted, render_training

    request, _ = make_request(target, overrides, compares=False, save_to=save_to, debug=debug)
    console = make_console()
    run, prepared = train_once(
        request,
        SpawnRunner(),
        SpawnRunner(capture=False, limits=NO_LIMITS),
        on_epoch=lambda epoch, epochs, metrics: console.print(epoch_line(epoch, epochs, metrics)),
        on_adapted=(lambda adapted: console.print(render_adapted(adapted))) if adapt else None,
    )
    console.print(render_training(run, prepared, save_to))
    return 0 if run.ok else 3
