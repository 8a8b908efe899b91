"""`tfopt compare`: compare two stacks that were measured separately."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option, project_option


@click.command()
@click.argument("a")
@click.argument("b")
@json_option
@project_option
@debug_option
def compare(a: str, b: str, json_path: Path | None, project: Path | None, debug: bool) -> None:
    """Compare the stacks of the measurements A and B, each against its own baseline.

    A and B are ids that `tfopt runs` lists (or the start or end of one, or `last`), or JSON files
    that `tfopt apply --json` wrote. Differences that make a comparison invalid are listed.
    """
    from tfopt_core.app.stored import compared
    from tfopt_core.commands.output import show
    from tfopt_core.report.results.across import render_across

    across = compared(a, b, project)
    show(render_across(across), across, json_path)
