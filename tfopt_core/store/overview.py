"""The overview of a measurement: what is listed without reading its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
from cattrs import Converter

from tfopt_core.recipe.table import WORKLOAD_CHOICES
from tfopt_core.records.results import SCHEMA_VERSION, RunResult
from tfopt_core.records.verdict import Verdict

# "unfinished": begun and never concluded, because it was killed or is still under way.
# "damaged": its stored data cannot be read.
State = Literal["finished", "interrupted", "unfinished", "damaged"]

_converter = Converter()


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
class Listing:
    """The data of `tfopt runs --json`: the measurements of one store, the newest last."""

    store: str
    measurements: tuple[Overview, ...]
    schema_version: int = SCHEMA_VERSION


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
    return _converter.structure(data, Overview)
