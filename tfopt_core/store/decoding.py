"""Decode stored and exported JSON, and what is listed of a measurement without its runs; an error
names what is damaged, and how."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError

from tfopt_core.errors import DamagedMeasurement, InputError, TfoptError, describe
from tfopt_core.recipe.table import WORKLOAD_CHOICES
from tfopt_core.statistics.results import SCHEMA_VERSION, Results, Verdict
from tfopt_core.statistics.runs import RunResult

MENTIONED = 3
# A file without these keys is another kind of JSON, such as that of `tfopt runs --json`.
ESSENTIAL = ("id", "recipe", "runs", "comparison")

# Far beyond any measurement: a device or a wrong file must not fill the memory.
MAX_SIGNS = 64 * 2**20

converter = Converter()
# JSON has no nan: `--json` writes null for a loss of nan
converter.register_structure_hook(
    float, lambda value, _: math.nan if value is None else float(value)
)


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


def parse_table(data: bytes) -> Mapping[str, Any]:
    """Return the table of a stored JSON text.

    :raises ValueError: if it is no UTF-8, no JSON or no table.
    :raises RecursionError: if it is nested too deeply.
    """
    table = json.loads(data.decode("utf-8"))
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


def read_results(path: Path) -> Results:
    """Return the measurement in a JSON file.

    :raises InputError: if the file cannot be read, is something else, or is of a newer tfopt.
    """
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read(MAX_SIGNS + 1)
        if len(text) > MAX_SIGNS:
            raise InputError(f'"{path}" is larger than {MAX_SIGNS >> 20} MiB')
        data = json.loads(text)
    except OSError as error:
        raise InputError(f'"{path}" cannot be read: {error.strerror or error}') from error
    except (ValueError, RecursionError) as error:
        hint = "; a recipe is measured with `tfopt apply`" if path.suffix == ".toml" else ""
        raise InputError(f'"{path}" is no JSON{hint}') from error
    if not isinstance(data, Mapping) or any(key not in data for key in ESSENTIAL):
        raise InputError(
            f'"{path}" is not a measurement; name a file that `tfopt apply RECIPE --json FILE` '
            "wrote, or an id that `tfopt runs` lists"
        )
    written = data.get("schema_version")
    if isinstance(written, int):
        check_version(written, SCHEMA_VERSION, f'"{path}" was written')
    try:
        return converter.structure(data, Results)
    except Exception as error:  # a file may hold anything in place of a number or a table
        raise InputError(f'"{path}" is damaged, or was edited: {cause_in_words(error)}') from error


# "unfinished": begun and never concluded, because it was killed or is still under way.
# "damaged": its stored data cannot be read.
State = Literal["finished", "interrupted", "unfinished", "damaged"]


@attrs.frozen(kw_only=True)
class Overview:
    """One measurement in a line.

    `verdict`, the speedup and its interval are None for a measurement that was never concluded or
    gave no number. `pairs` counts complete pairs, `runs` all runs, also failed ones. `created_at`
    is UTC, ISO 8601. `damage` says what cannot be read, None if nothing is damaged.
    """

    id: str
    created_at: str
    recipe: str
    recipe_sha256: str
    workload: str
    state: State
    verdict: Verdict | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    pairs: int
    runs: int
    damage: str | None = None


@attrs.frozen(kw_only=True)
class Interim:
    """The data of `tfopt report --json` for a measurement that was never concluded."""

    measurement: Overview
    runs: tuple[RunResult, ...]
    schema_version: int = SCHEMA_VERSION


def make_overview(
    begun: Sequence[str],
    request: Mapping[str, Any],
    concluded: Mapping[str, Any] | None,
    counts: Mapping[str, int],
) -> Overview:
    """Return the overview of stored data.

    :param begun: id, time, recipe and recipe hash.
    :param request: as given to `Store.begin`; only the workload is read.
    :param concluded: the results as plain data, None if there are none.
    :param counts: `runs`, and the complete `pairs` among them, for one without results.
    :raises Exception: any, for damaged data.
    """
    state: State = "unfinished"
    figures: dict[str, Any] = dict(counts)
    workload = None
    if concluded is not None:
        state = "interrupted" if concluded["interrupted"] else "finished"
        figures |= concluded["comparison"]
        workload = concluded.get("workload")
    if not workload:
        named = request.get("recipe", {}).get("workload", {})
        workload = next(filter(None, map(named.get, WORKLOAD_CHOICES)), "")
    known = dict(zip(("id", "created_at", "recipe", "recipe_sha256"), begun, strict=True))
    data = {**figures, **known, "workload": workload, "state": state}
    return converter.structure(data, Overview)
