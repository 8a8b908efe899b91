"""Find earlier measurements in a project's store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tfopt_core.app.project import project_of
from tfopt_core.errors import InputError, did_you_mean
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.results import Results
from tfopt_core.statistics.across import Across, compare_stacks
from tfopt_core.store.database import Store, store_path
from tfopt_core.store.exported import read_diagnosis, read_results
from tfopt_core.store.overview import Interim, Listing

LAST = "last"
# The most ids that a message lists.
CANDIDATES = 5


def place_of(project: Path | None) -> Path:
    """Return the path of the results file of a project; None for the current project."""
    return store_path(project_of(Path.cwd()) if project is None else project)


@contextmanager
def open_stored(project: Path | None) -> Iterator[Store]:
    """Open the project's store for reading.

    :raises InputError: if nothing was ever measured there.
    """
    path = place_of(project)
    store = Store.existing(path)
    if store is None:
        raise InputError(
            f'nothing was measured yet: there is no "{path}"; `tfopt apply RECIPE` measures, and '
            "--project DIR looks elsewhere"
        )
    with closing(store):
        yield store


def find_id(store: Store, text: str) -> str:
    """Return the full id for an id, its start or end, or "last".

    :raises InputError: with candidates, if it matches none or several.
    """
    known = store.measurements()
    if not known:
        raise InputError(f'nothing was measured yet: there is no measurement in "{store.path}"')
    if text == LAST:
        return known[-1]
    if text in known:
        return text
    matches = [id_ for id_ in known if text and (id_.startswith(text) or id_.endswith(text))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(
            f'"{text}" matches {len(matches)} measurements: {_some(matches)}; give more of the id'
        )
    hint = did_you_mean(text, known) or f"the latest are: {_some(list(known))}"
    raise InputError(f'no measurement is named "{text}"; {hint}')


def listing(project: Path | None) -> Listing:
    """Return what was measured in a project, the newest last."""
    path = place_of(project)
    store = Store.existing(path)
    if store is None:
        return Listing(store=str(path), measurements=())
    with closing(store):
        return Listing(store=str(path), measurements=store.overview())


def stored_results(text: str, project: Path | None) -> Results | Interim:
    """Return the results of a measurement, or the runs of one that was never concluded.

    :param text: its id, as `find_id` takes it.
    :raises InputError: if it is unknown or ambiguous.
    """
    with open_stored(project) as store:
        id_ = find_id(store, text)
        results = store.results(id_)
        if results is not None:
            return results
        return Interim(measurement=store.overview_of(id_), runs=store.runs(id_))


def diagnoses_of(results: Results, paths: Sequence[Path]) -> tuple[Diagnosed, ...]:
    """Return the diagnoses in these files: of the baseline, of the stack, or both.

    :raises InputError: if one cannot be read, is of another recipe or machine, or two are of the
        same side.
    """
    found: dict[bool, Diagnosed] = {}
    for path in paths:
        diagnosed = read_diagnosis(path)
        if diagnosed.recipe_sha256 != results.recipe_sha256:
            raise InputError(
                f'--diagnosis: "{path}" is of another recipe than {results.id}; diagnose the '
                "recipe as it was measured, with the same --set"
            )
        if diagnosed.machine.get("cpu_model") != results.machine.get("cpu_model"):
            raise InputError(
                f'--diagnosis: "{path}" is of another machine than {results.id}; diagnose there'
            )
        stacked = bool(diagnosed.stack)
        if stacked in found:
            side = "with the stack" if stacked else "of the baseline"
            other = "without" if stacked else "with"
            raise InputError(
                f'--diagnosis: "{path}" is a second diagnosis {side}; make one {other} --stack'
            )
        found[stacked] = diagnosed
    return tuple(found.values())


def compared(a: str, b: str, project: Path | None) -> Across:
    """Compare the stacks of two measurements, each named by its id or the JSON file of its results.

    :raises InputError: if one is unknown, ambiguous, or without a verdict.
    """
    return compare_stacks(_concluded(a, project), _concluded(b, project))


def _concluded(text: str, project: Path | None) -> Results:
    results = read_results(Path(text)) if is_file(text) else stored_results(text, project)
    if isinstance(results, Interim):
        id_ = results.measurement.id
        raise InputError(
            f'"{id_}" is unfinished, so there is no verdict to compare; `tfopt report {id_}` '
            "lists its runs"
        )
    return results


def _some(ids: list[str]) -> str:
    """Return the newest ids as text, the newest last."""
    shown = ", ".join(ids[-CANDIDATES:])
    return shown if len(ids) <= CANDIDATES else f"{shown} ({len(ids) - CANDIDATES} older ones too)"


def is_file(text: str) -> bool:
    """Return whether the text is a path and not an id."""
    if text == LAST:
        return False
    return bool(Path(text).suffix) or os.sep in text or os.path.isfile(text)
