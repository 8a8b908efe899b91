"""Decode stored JSON; damaged data raise an error that names the measurement."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cattrs import transform_error
from cattrs.errors import BaseValidationError

from tfopt_core.errors import DamagedMeasurement, InputError, TfoptError, describe

MENTIONED = 3


@contextlib.contextmanager
def reading(measurement: str, path: Path, part: str) -> Iterator[None]:
    """Turn any error of damaged data into one that names the measurement.

    :param path: the results file.
    :param part: the part of the measurement that is read, for the message.
    :raises DamagedMeasurement: for any exception but those of tfopt itself.
    """
    try:
        yield
    except TfoptError:
        raise
    # Exception: stored text may hold anything in place of a number or a table
    except Exception as error:
        cause = f"{part} cannot be read: {cause_in_words(error)}"
        raise DamagedMeasurement(measurement, str(path), cause) from error


def parse(data: bytes) -> Any:
    """Return the value of a stored JSON text.

    :raises ValueError: if it is no UTF-8 or no JSON.
    :raises RecursionError: if it is nested too deeply.
    """
    return json.loads(data.decode("utf-8"))


def parse_table(data: bytes) -> Mapping[str, Any]:
    """Return the table of a stored JSON text.

    :raises ValueError, RecursionError: as `parse`, and if it is no table.
    """
    table = parse(data)
    if not isinstance(table, dict):
        raise ValueError(f"a table is expected, not {type(table).__name__}")
    return table


def cause_in_words(error: Exception) -> str:
    """Return the first few problems of an error, each with its place, in one phrase."""
    if isinstance(error, BaseValidationError):
        problems = [problem.replace("@ $.", "at ") for problem in transform_error(error)]
        return "; ".join(problems[:MENTIONED])
    return describe(error).removeprefix("raised ")


def check_version(written: int, known: int, what: str) -> None:
    """Refuse results of another version.

    :param written: the version of the results.
    :param known: the version of this tfopt.
    :param what: the results and what was done, such as `"m" was concluded`.
    :raises InputError: naming both versions.
    """
    if written > known:
        raise InputError(
            f"{what} by a newer tfopt (schema {written}, this one knows {known}); upgrade tfopt"
        )
    if written < known:
        raise InputError(
            f"{what} by an older tfopt (schema {written}, this one knows {known}); measure again"
        )
