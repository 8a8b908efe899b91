"""`tfopt runs`: list earlier measurements."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option, json_option, project_option


@click.command()
@json_option
@project_option
@debug_option
def runs(json_path: Path | None, project: Path | None, debug: bool) -> None:
    """List the measurements of this project, the newest last."""
    from tfopt_core.app.stored import place_of
    from tfopt_core.cli.output import show
    from tfopt_core.report.results.runs import render_runs
    from tfopt_core.store.database import Store
    from tfopt_core.store.overview import Listing

    path = place_of(project)
    listing = Listing(store=str(path), measurements=())
    store = Store.existing(path)
    if store is not None:
        with closing(store):
            listing = Listing(store=str(path), measurements=store.overview())
    show(render_runs(listing), listing, json_path)
