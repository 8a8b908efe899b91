"""`tfopt compare`: compare two stacks that were measured separately."""

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
    that `tfopt apply --json` wrote. Differences that make a comparison invalid are listed.
    """
    from tfopt_core.cli.output import show
    from tfopt_core.report.results.across import render_across
    from tfopt_core.statistics.across.contrast import compare_stacks

    across = compare_stacks(_measured(a, project), _measured(b, project))
    show(render_across(across), across, json_path)


def _measured(id_or_file: str, project: Path | None) -> Measured:
    """Return the measurement with this id or in this file.

    :raises InputError: if it is not there, ambiguous, or without a verdict.
    """
    from tfopt_core.app.stored import find_id, is_file, open_stored
    from tfopt_core.statistics.across.comparable import Measured
    from tfopt_core.store.exported import read_results

    if is_file(id_or_file):
        return Measured(name=id_or_file, results=read_results(Path(id_or_file)))
    with open_stored(project) as store:
        id_ = find_id(store, id_or_file)
        results = store.results(id_)
        if results is None:
            raise InputError(
                f'"{id_}" is unfinished, so there is no verdict to compare; `tfopt report '
                f"{id_}` lists its runs"
            )
        return Measured(name=id_, results=results, recipe=store.request_of(id_).get("recipe", {}))
