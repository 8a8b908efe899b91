"""Convert results to plain data for `--json`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Set
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TextIO

import attrs

from tfopt_core.files import write_text

STANDARD_OUTPUT = "-"

Data = attrs.AttrsInstance | Mapping[str, Any]


def to_json(results: Data) -> dict[str, Any]:
    """Return results, or other frozen data, as dicts, lists, strings, numbers, booleans and None.

    JSON has no NaN and no infinity: such a number (the loss of a run that diverged) becomes
    None, `null` in the file. Any other type that JSON lacks becomes a string.
    """
    data: dict[str, Any] = _plain_data(results)
    return data


def write_json(results: Data, target: Path | str, stdout: TextIO | None = None) -> None:
    """Write the results to a file, or to standard output for "-".

    A file is replaced only once the new one is complete on disk. What is not a regular file
    (`/dev/stdout`, a pipe) is written to directly.

    :raises InputError: if the file cannot be written.
    """
    text = json.dumps(to_json(results), indent=2, allow_nan=False) + "\n"
    if str(target) != STANDARD_OUTPUT:
        write_text(Path(target), text, replace=True)
        return
    print(text, end="", file=stdout or sys.stdout, flush=True)


def _plain_data(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if attrs.has(type(value)):
        # what tells a record from others stands before what it shares with them
        fields = sorted(attrs.fields(type(value)), key=lambda field: field.inherited)
        return {field.name: _plain_data(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain_data(item) for key, item in value.items()}
    if isinstance(value, Set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [_plain_data(item) for item in value]
    return str(value)
