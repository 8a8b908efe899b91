"""Find earlier measurements in a project's store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tfopt_core.app.project import project_of
from tfopt_core.errors import InputError, did_you_mean
from tfopt_core.store.database import Store, store_path

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


def _some(ids: list[str]) -> str:
    """Return the newest ids as text, the newest last."""
    shown = ", ".join(ids[-CANDIDATES:])
    return shown if len(ids) <= CANDIDATES else f"{shown} ({len(ids) - CANDIDATES} older ones too)"


def is_file(text: str) -> bool:
    """Return whether the text is a path and not an id."""
    if text == LAST:
        return False
    path = Path(text)
    return bool(path.suffix) or os.sep in text or path.is_file()
