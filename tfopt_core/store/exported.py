"""Read results that `tfopt apply --json` wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cattrs import Converter

from tfopt_core.errors import InputError
from tfopt_core.records.results import SCHEMA_VERSION, Results
from tfopt_core.store.decoding import cause_in_words

# A file without these keys is another kind of JSON, such as that of `tfopt runs --json`.
ESSENTIAL = ("id", "recipe", "runs", "comparison")

_converter = Converter()
# JSON has no nan: `--json` writes null for a loss of nan
_converter.register_structure_hook(
    float, lambda value, _: math.nan if value is None else float(value)
)


def read_results(path: Path) -> Results:
    """Return the measurement in a JSON file.

    :raises InputError: if the file cannot be read, is something else, or is of a newer tfopt.
    """
    data = _parsed(path)
    if not isinstance(data, Mapping) or any(key not in data for key in ESSENTIAL):
        raise InputError(
            f'"{path}" is not a measurement; name a file that `tfopt apply RECIPE --json FILE` '
            "wrote, or an id that `tfopt runs` lists"
        )
    version = data.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InputError(
            f'"{path}" was written by a newer tfopt (schema {version}, this one knows '
            f"{SCHEMA_VERSION}); upgrade tfopt"
        )
    try:
        return _converter.structure(data, Results)
    except Exception as error:  # a file may hold anything in place of a number or a table
        raise InputError(f'"{path}" is damaged, or was edited: {cause_in_words(error)}') from error


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f'"{path}" cannot be read: {error.strerror or error}') from error
    except (ValueError, RecursionError) as error:
        hint = "; a recipe is measured with `tfopt apply`" if path.suffix == ".toml" else ""
        raise InputError(f'"{path}" is no JSON{hint}') from error
