"""Print a page for people, and write the same as JSON."""

from __future__ import annotations

from pathlib import Path

import attrs
from rich.console import RenderableType

from tfopt_core.report.results.as_json import STANDARD_OUTPUT, write_json
from tfopt_core.report.style.console import make_console


def show(page: RenderableType, data: attrs.AttrsInstance, json_path: Path | None) -> None:
    """Print the page, and write the data as JSON if a path is given.

    With the JSON on standard output, the page goes to standard error.

    :raises InputError: if the file cannot be written.
    """
    show_page(page, json_path)
    if json_path is not None:
        write_json(data, STANDARD_OUTPUT if _is_stdout(json_path) else json_path)


def show_page(page: RenderableType, json_path: Path | None) -> None:
    """Print a page; on standard error if the JSON goes to standard output."""
    make_console(stderr=_is_stdout(json_path)).print(page)


def _is_stdout(json_path: Path | None) -> bool:
    return json_path is not None and str(json_path) == STANDARD_OUTPUT
