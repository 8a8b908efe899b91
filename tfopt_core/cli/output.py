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
    to_stdout = json_path is not None and str(json_path) == STANDARD_OUTPUT
    make_console(stderr=to_stdout).print(page)
    if json_path is not None:
        write_json(data, STANDARD_OUTPUT if to_stdout else json_path)
