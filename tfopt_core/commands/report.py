"""`tfopt report`: print the summary of a measurement again, or write it as a report."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import (
    debug_option,
    html_option,
    json_option,
    markdown_option,
    project_option,
    verbose_option,
)
from tfopt_core.errors import InputError


@click.command()
@click.argument("id_", metavar="ID")
@json_option
@html_option
@markdown_option
@click.option(
    "--diagnosis", "diagnoses", multiple=True, metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show in --html where a step's time goes, from `tfopt diagnose --json` of the same "
    "recipe: once without and once with --stack.",
)  # fmt: skip
@project_option
@verbose_option
@debug_option
def report(
    id_: str,
    json_path: Path | None,
    html_path: Path | None,
    markdown_path: Path | None,
    diagnoses: tuple[Path, ...],
    project: Path | None,
    verbose: bool,
    debug: bool,
) -> None:
    """Print the answer of the measurement ID again, or write it as a report.

    ID is an id that `tfopt runs` lists, the start or the end of one, or `last`.
    """
    from tfopt_core.app.stored import diagnoses_of, stored_results
    from tfopt_core.commands.output import ReportFiles, print_page, show
    from tfopt_core.records.results import Results
    from tfopt_core.report.results.answer import render_answer
    from tfopt_core.report.results.runs import render_interim
    from tfopt_core.report.results.summary import render_summary

    if diagnoses and html_path is None:
        raise InputError("--diagnosis is about the page of --html; name a file for it")
    files = ReportFiles(json_path=json_path, html_path=html_path, markdown_path=markdown_path)
    files.check()
    found = stored_results(id_, project)
    if not isinstance(found, Results):
        if html_path is not None or markdown_path is not None:
            raise InputError(
                f'"{found.measurement.id}" is unfinished, so there is nothing to report yet; '
                "without --html and --markdown its runs are listed"
            )
        show(render_interim(found), found, json_path)
        return
    diagnosed = diagnoses_of(found, diagnoses)
    print_page(render_summary(found) if verbose else render_answer(found), files)

    def html() -> str:
        from tfopt_core.report.html.page import html_page

        return html_page(found, diagnosed)

    def markdown() -> str:
        from tfopt_core.report.results.markdown import markdown_report

        return markdown_report(found)

    files.write(found, html, markdown)
