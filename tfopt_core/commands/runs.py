"""`tfopt runs`: list earlier measurements."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option, project_option


@click.command()
@json_option
@project_option
@debug_option
def runs(json_path: Path | None, project: Path | None, debug: bool) -> None:
    """List the measurements of this project, the newest last."""
    from tfopt_core.app.stored import listing
    from tfopt_core.commands.output import show
    from tfopt_core.report.results.runs import render_runs

    found = listing(project)
    show(render_runs(found), found, json_path)
