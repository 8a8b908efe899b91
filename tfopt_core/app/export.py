"""Export a recipe as plain TensorFlow code, as `tfopt export` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.command_request import temporary_request
from tfopt_core.app.script_target import refuse_script
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from tfopt_core.records.program import Program


def export_recipe(
    target: str, overrides: Sequence[str], output: Path | None, *, seed: int, debug: bool = False
) -> Program:
    """Return the program that trains as the recipe does.

    :param output: the file to which it will be written, None for none.
    :raises InputError: for errors in the recipe, and for a file that exists or cannot be written.
    """
    from tfopt_core.export.ask import write_down

    refuse_script(target, "tfopt export")
    if output is not None and not os.path.isdir(output.absolute().parent):
        raise InputError(f'--output: there is no folder "{output.parent}"')
    if output is not None and os.path.exists(output):  # it may be the workload's own
        raise InputError(f'--output: "{output}" exists already; name another file')
    with temporary_request(target, overrides, debug=debug) as request:
        return write_down(attrs.evolve(request.observed(), seed=seed))
