"""`tfopt runs`, `tfopt report` and `tfopt compare`: what was measured before in a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.commands.output import ReportFiles
from tfopt_core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from tfopt_core.statistics.results import Results
    from tfopt_core.store.database import Store
    from tfopt_core.store.decoding import Interim

LAST = "last"
# The most ids that a message lists.
CANDIDATES = 5


@click.command()
@shared.report_option()
@shared.project_option
@shared.debug_option
def runs(files: ReportFiles, project: Path | None, debug: bool) -> None:
    """List the measurements of this project, the newest last."""
    from tfopt_core.report.results.pages import render_runs
    from tfopt_core.statistics.results import SCHEMA_VERSION

    with _opened(project) as store:
        found = store.overview()
    data = {"store": str(store.path), "measurements": found, "schema_version": SCHEMA_VERSION}
    files.show(render_runs(store.path, found), data)


@click.command()
@click.argument("id_", metavar="ID")
@shared.report_option(shared.html_option, shared.markdown_option)
@shared.project_option
@shared.verbose_option
@shared.debug_option
def report(id_: str, files: ReportFiles, project: Path | None, verbose: bool, debug: bool) -> None:
    """Print the answer of the measurement ID again, or write it as a report.

    ID is an id that `tfopt runs` lists, the start or the end of one, or `last`.
    """
    from tfopt_core.report.results.pages import render_interim
    from tfopt_core.statistics.results import Results

    found = _stored(id_, project)
    if isinstance(found, Results):
        files.show_results(found, verbose=verbose)
        return
    if files.html_path is not None or files.markdown_path is not None:
        raise InputError(
            f'"{found.measurement.id}" is unfinished, so there is nothing to report yet; '
            "without --html and --markdown its runs are listed"
        )
    files.show(render_interim(found), found)


@click.command()
@click.argument("a")
@click.argument("b")
@shared.report_option()
@shared.project_option
@shared.debug_option
def compare(a: str, b: str, files: ReportFiles, project: Path | None, debug: bool) -> None:
    """Compare the stacks of the measurements A and B, each against its own baseline.

    A and B are ids that `tfopt runs` lists (or the start or end of one, or `last`), or JSON files
    that `tfopt apply --json` wrote. Differences that make a comparison invalid are listed.
    """
    from tfopt_core.report.results.pages import render_across
    from tfopt_core.statistics.across import compare_stacks

    across = compare_stacks(_concluded(a, project), _concluded(b, project))
    files.show(render_across(across), across)


def _opened(project: Path | None) -> Store:
    """Return the store of a project, the current one for None."""
    from tfopt_core.commands.request import project_of
    from tfopt_core.store.database import Store, store_path

    return Store.existing(store_path(project_of(Path.cwd()) if project is None else project))


def _stored(text: str, project: Path | None) -> Results | Interim:
    """Return the results of a measurement, or the runs of one that was never concluded.

    :param text: its id, the start or end of it, or "last".
    :raises InputError: with candidates, if that matches none or several.
    """
    from tfopt_core.store.decoding import Interim

    with _opened(project) as store:
        id_ = _find_id(store, text)
        return store.results(id_) or Interim(
            measurement=store.overview_of(id_), runs=store.runs(id_)
        )


def _find_id(store: Store, text: str) -> str:
    known = store.measurements()
    if not known:
        raise InputError(
            f'nothing was measured yet: there is no measurement in "{store.path}"; `tfopt apply '
            "RECIPE` measures, and --project DIR looks elsewhere"
        )
    if text == LAST:
        return known[-1]
    if text in known:
        return text
    matches = [id_ for id_ in known if text and (id_.startswith(text) or id_.endswith(text))]
    if len(matches) == 1:
        return matches[0]
    newest = (matches or known)[-CANDIDATES:]
    older = len(matches or known) - len(newest)
    shown = ", ".join(newest) + (f" ({older} older ones too)" if older else "")
    if matches:
        raise InputError(
            f'"{text}" matches {len(matches)} measurements: {shown}; give more of the id'
        )
    hint = did_you_mean(text, known) or f"the latest are: {shown}"
    raise InputError(f'no measurement is named "{text}"; {hint}')


def _concluded(text: str, project: Path | None) -> Results:
    """Return the results of an id or of a JSON file.

    :raises InputError: if they are unknown, ambiguous, or without a verdict.
    """
    from tfopt_core.statistics.results import Results
    from tfopt_core.store.decoding import read_results

    if text != LAST and (Path(text).suffix or os.sep in text or os.path.isfile(text)):
        return read_results(Path(text))
    results = _stored(text, project)
    if isinstance(results, Results):
        return results
    id_ = results.measurement.id
    raise InputError(
        f'"{id_}" is unfinished, so there is no verdict to compare; `tfopt report {id_}` '
        "lists its runs"
    )
