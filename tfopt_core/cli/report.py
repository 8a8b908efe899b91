"""`tfopt report`: print the summary of a measurement again."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option, json_option, project_option


@click.command()
@click.argument("id_", metavar="ID")
@json_option
@project_option
@debug_option
def report(id_: str, json_path: Path | None, project: Path | None, debug: bool) -> None:
    """Print the summary of the measurement ID again.

    ID is an id that `tfopt runs` lists, the start or the end of one, or `last`.
    """
    from tfopt_core.app.stored import stored_results
    from tfopt_core.cli.output import show
    from tfopt_core.records.results import Results
    from tfopt_core.report.results.runs import render_interim
    from tfopt_core.report.results.summary import render_summary

    found = stored_results(id_, project)
    page = render_summary(found) if isinstance(found, Results) else render_interim(found)
    show(page, found, json_path)
