"""`tfopt compare`: two stacks that were measured apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.cli.options import debug_option, json_option, project_option
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from tfopt_core.statistics.across.comparable import Measured


@click.command()
@click.argument("a")
@click.argument("b")
@json_option
@project_option
@debug_option
def compare(a: str, b: str, json_path: Path | None, project: Path | None, debug: bool) -> None:
    """Compare the stacks of the measurements A and B, each against its own baseline.

    A and B are ids that `tfopt runs` lists (or the start or end of one, or `last`), or JSON files
    that `tfopt apply --json` wrote. Whatever makes them not comparable is said.
    """
    from tfopt_core.cli.output import show
    from tfopt_core.report.results.across import render_across
    from tfopt_core.statistics.across.contrast import compare_stacks

    across = compare_stacks(_measured(a, project), _measured(b, project))
    show(render_across(across), across, json_path)


def _measured(asked: str, project: Path | None) -> Measured:
    """The measurement that was asked for.

    :raises InputError: if it is not there, ambiguous, or without a verdict.
    """
    from tfopt_core.app.stored import find_id, is_file, open_stored
    from tfopt_core.statistics.across.comparable import Measured
    from tfopt_core.store.exported import read_results

    if is_file(asked):
        return Measured(name=asked, results=read_results(Path(asked)))
    with open_stored(project) as store:
        found = find_id(store, asked)
        results = store.results(found)
        if results is None:
            raise InputError(
                f'"{found}" is unfinished, so there is no verdict to compare; `tfopt report '
                f"{found}` lists its runs"
            )
        return Measured(
            name=found, results=results, recipe=store.request_of(found).get("recipe", {})
        )
