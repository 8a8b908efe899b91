"""Keep each step of a search in a SQLite file when it ends, and find those of earlier searches.

An entry is on the disk before the next trial begins, so a kill loses the trial under way alone.
Trials of settings are kept by Optuna (`study`).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import attrs
from cattrs import Converter

from tfopt_core.errors import InputError, StoreError
from tfopt_core.measurement.fingerprint import differences
from tfopt_core.tuning.results import StackTrial

LOG_FILE = "searches.sqlite"

_TABLE = """CREATE TABLE IF NOT EXISTS entry (
    search TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, seconds REAL NOT NULL,
    data TEXT NOT NULL
)"""
_converter = Converter()
T = TypeVar("T")


@attrs.define
class SearchRecord:
    """A search as the log has it.

    :param target: what was searched for, by which a resume finds it.
    :param facts: what the trials depend on: machine, versions, code, workload, objective.
    :param entries: plain data by kind and key.
    :param seconds: what its diagnoses and trials took, of this search those before it was resumed.
    """

    id: str
    target: str
    facts: Mapping[str, str]
    entries: dict[tuple[str, str], Any] = attrs.field(factory=dict)
    seconds: float = 0.0
    resumed: int = 0

    @property
    def ended(self) -> bool:
        """Whether it came to its end."""
        return ("end", "") in self.entries


@attrs.define(eq=False)
class SearchLog:
    """The log of one search, with what earlier searches of the same facts have left.

    :param path: the file of all searches.
    :param own: what this search has done, before it was resumed too.
    :param earlier: other searches with the same facts, the newest first.
    :param begun_from: the searches from which something was taken.
    """

    path: Path
    own: SearchRecord
    earlier: tuple[SearchRecord, ...] = ()
    begun_from: dict[str, None] = attrs.field(factory=dict)

    @classmethod
    def open(
        cls, folder: Path, target: str, facts: Mapping[str, str], *, fresh: bool = False
    ) -> SearchLog:
        """Begin the log of a new search, which is named as its folder, or go on with the log of one
        that was stopped.

        :param fresh: take nothing from other searches.
        :raises StoreError: if the log is damaged, or cannot be written.
        """
        searches = read_searches(folder.parent)
        others = () if fresh else tuple(
            one for one in searches if one.facts == facts and one.id != folder.name
        )  # fmt: skip
        own = next((one for one in searches if one.id == folder.name), None)
        log = cls(folder.parent / LOG_FILE, own or SearchRecord(folder.name, target, facts), others)
        if own is None:
            log.write("begin", data={"target": target, "facts": dict(facts)})
        else:
            log.write("resumed")
            own.resumed += 1
        return log

    def kept(self, key: str) -> StackTrial | None:
        """Return a trial that was made before, None if there is none."""
        found = self.found("trial", key, StackTrial, lasting=lambda one: one.outcome.is_lasting)
        return found and attrs.evolve(found[0], kept_from=found[0].kept_from or found[1])

    def add(self, key: str, trial: StackTrial) -> None:
        """Write a trial, unless this search has it already.

        :raises StoreError: if it cannot be written.
        """
        if ("trial", key) not in self.own.entries:
            self.write("trial", key, trial, 0.0 if trial.kept_from else trial.seconds)

    def found(
        self, kind: str, key: str, as_: type[T], *, lasting: Callable[[T], bool] = lambda one: True
    ) -> tuple[T, str] | None:
        """Return what was written before, and the id of the search that wrote it, "" for this one;
        None if nothing was.

        :param lasting: whether what another search wrote may be taken over.
        """
        for record in (self.own, *self.earlier):
            if (kind, key) not in record.entries:
                continue
            one = _converter.structure(record.entries[kind, key], as_)
            if record is self.own:
                return one, ""
            if lasting(one):
                self.begun_from[record.id] = None
                return one, record.id
        return None

    def write(self, kind: str, key: str = "", data: Any = None, seconds: float = 0.0) -> None:
        """Write one entry, and wait until it is on the disk.

        :param seconds: what it took, which a resumed search counts in its budget.

        :raises StoreError: if it cannot be written.
        """
        plain = _converter.unstructure(data)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                connection.execute(_TABLE)
                connection.execute(
                    "INSERT INTO entry VALUES (?, ?, ?, ?, ?)",
                    (self.own.id, kind, key, seconds, json.dumps(plain)),
                )
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f'"{self.path}" cannot be written: {error}') from error
        self.own.entries[kind, key] = plain


def read_searches(folder: Path) -> tuple[SearchRecord, ...]:
    """Return the searches in the log of a folder, the newest first.

    :raises StoreError: if the file is damaged; it may be deleted, since each can be made again.
    """
    path, found = folder / LOG_FILE, dict[str, SearchRecord]()
    if not path.exists():
        return ()
    try:
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.execute(_TABLE)
            rows = connection.execute("SELECT * FROM entry ORDER BY rowid").fetchall()
        for search, kind, key, seconds, text in rows:
            data = json.loads(text)
            if kind == "begin":
                found[search] = SearchRecord(search, **data)
                continue
            found[search].entries[kind, key] = data
            found[search].seconds += seconds
            found[search].resumed += kind == "resumed"
    except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f'"{path}" is damaged ({error}); move it away to search from the start'
        ) from error
    return tuple(found[search] for search in sorted(found, reverse=True))


def newest_stopped(
    searches: tuple[SearchRecord, ...], target: str, facts: Mapping[str, str]
) -> SearchRecord:
    """Return the newest search of a target that was stopped.

    :raises InputError: if there is none, or what it depends on has changed; names what.
    """
    stopped = next((one for one in searches if one.target == target and not one.ended), None)
    if stopped is None:
        raise InputError(
            f'there is nothing to resume: no search of "{target}" was stopped; leave out --resume'
        )
    if changes := differences(stopped.facts, facts):
        raise InputError(
            f'search "{stopped.id}" cannot be resumed, its trials would not compare: '
            f"{'; '.join(changes)}; undo that, or search anew without --resume"
        )
    return stopped


def digest(value: Any) -> str:
    """Return a short name of data, such as a stack: equal names mean equal data."""
    text = json.dumps(_converter.unstructure(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def key_of(trial: StackTrial) -> str:
    """Return the key of a trial that is planned: equal keys mean the same two stacks."""
    return digest([trial.action, trial.plugin, trial.stack, trial.without])
