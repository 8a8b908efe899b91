"""A measurement in short: what there is to list of it without reading its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from cattrs import Converter

from tfopt_core.records.results import SCHEMA_VERSION, RunResult
from tfopt_core.records.verdict import Verdict

# "unfinished": begun and never concluded, because it was killed or is still under way.
# "damaged": what is kept of it cannot be read.
State = Literal["finished", "interrupted", "unfinished", "damaged"]

_converter = Converter()


@attrs.frozen(kw_only=True)
class Overview:
    """One measurement in a line.

    `verdict`, the speedup and its interval are those of its own comparison, None where it was
    never concluded or gave no number. `pairs` are complete pairs, `runs` all runs, failed ones
    too. `created_at` is UTC, ISO 8601. `damage` says what cannot be read, None where nothing is
    damaged.
    """

    id: str
    created_at: str
    recipe: str
    recipe_sha256: str
    workload: str
    state: State
    verdict: Verdict | None
    speedup: float | None
    low: float | None
    high: float | None
    confidence: float | None
    pairs: int
    runs: int
    damage: str | None = None


@attrs.frozen
class _Comparison:
    """What an overview has of a comparison."""

    verdict: Verdict | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    pairs: int | None = None


@attrs.frozen(kw_only=True)
class Listing:
    """What `tfopt runs --json` writes: the measurements of one store, the newest last."""

    store: str
    measurements: tuple[Overview, ...]
    schema_version: int = SCHEMA_VERSION


@attrs.frozen(kw_only=True)
class Interim:
    """What `tfopt report --json` writes of a measurement that was never concluded."""

    measurement: Overview
    runs: tuple[RunResult, ...]
    schema_version: int = SCHEMA_VERSION


def make_overview(
    *,
    id_: str,
    created_at: str,
    recipe: str,
    recipe_sha256: str,
    request: Mapping[str, Any],
    concluded: Mapping[str, Any] | None,
    pairs: int,
    runs: int,
) -> Overview:
    """The short form of what is stored.

    :param request: as `Store.begin` got it; all that is read of it is the workload.
    :param concluded: the results as plain data, None where there are none.
    :param pairs: complete pairs among the runs, for a measurement without results.
    :raises Exception: for damaged data, whatever reading them raises.
    """
    results = concluded or {}
    comparison = _converter.structure(results.get("comparison", {}), _Comparison)
    state: State = "unfinished"
    if concluded is not None:
        state = "interrupted" if results.get("interrupted") else "finished"
    return Overview(
        id=id_,
        created_at=created_at,
        recipe=recipe,
        recipe_sha256=recipe_sha256,
        workload=str(results.get("workload") or _workload(request)),
        state=state,
        verdict=comparison.verdict,
        speedup=comparison.speedup,
        low=comparison.low,
        high=comparison.high,
        confidence=comparison.confidence,
        pairs=pairs if comparison.pairs is None else comparison.pairs,
        runs=runs,
    )


def _workload(request: Mapping[str, Any]) -> str:
    asked = request.get("recipe", {}).get("workload", {})
    return str(asked.get("use") or asked.get("factory") or asked.get("script") or "")
