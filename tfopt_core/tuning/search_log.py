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

from tfopt_core.errors import StoreError
from tfopt_core.tuning.results import StackTrial, TunedPlugin

LOG_FILE = "searches.sqlite"

_TABLE = """CREATE TABLE IF NOT EXISTS entry (
    search TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, seconds REAL NOT NULL,
    data TEXT NOT NULL
)"""
_converter = Converter()
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class SearchRecord:
    """A search as the log has it.

    :param target: what was searched for, by which a resume finds it.
    :param facts: what the trials depend on: machine, versions, code, workload, objective.
    :param entries: plain data by kind and key.
    :param seconds: what its diagnoses and trials took.
    """

    id: str
    target: str
    facts: Mapping[str, str]
    entries: dict[tuple[str, str], Any] = attrs.field(factory=dict)
    seconds: float = 0.0
    resumed: int = 0
    ended: bool = False


@attrs.define(eq=False)
class SearchLog:
    """The log of one search, with what earlier searches of the same facts have left.

    :param path: the file of all searches.
    :param own: what this search has done, before it was resumed too.
    :param earlier: other searches with the same facts, the newest first.
    """

    path: Path
    own: SearchRecord
    earlier: tuple[SearchRecord, ...] = ()
    begun_from: dict[str, None] = attrs.field(factory=dict)

    @classmethod
    def begin(
        cls, folder: Path, target: str, facts: Mapping[str, str],
        earlier: tuple[SearchRecord, ...] = (),
    ) -> SearchLog:  # fmt: skip
        """Begin the log of a new search, which is named as its folder.

        :raises StoreError: if it cannot be written.
        """
        own = SearchRecord(id=folder.name, target=target, facts=facts)
        log = cls(folder.parent / LOG_FILE, own, earlier)
        log.write("begin", data={"target": target, "facts": dict(facts)})
        return log

    @classmethod
    def resume(
        cls, folder: Path, own: SearchRecord, earlier: tuple[SearchRecord, ...] = ()
    ) -> SearchLog:
        """Go on with the log of a search that was stopped."""
        log = cls(folder.parent / LOG_FILE, own, earlier)
        log.write("resumed")
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
            data = record.entries.get((kind, key))
            one = None if data is None else _converter.structure(data, as_)
            if one is not None and record is self.own:
                return one, ""
            if one is not None and lasting(one):
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
                found[search] = SearchRecord(id=search, entries={}, **data)
                continue
            one = found[search]
            found[search] = attrs.evolve(
                one, entries={**one.entries, (kind, key): data}, seconds=one.seconds + seconds,
                resumed=one.resumed + (kind == "resumed"), ended=one.ended or kind == "end",
            )  # fmt: skip
    except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f'"{path}" is damaged ({error}); move it away to search from the start'
        ) from error
    return tuple(found[search] for search in sorted(found, reverse=True))


def digest(value: Any) -> str:
    """Return a short name of plain data: equal names mean equal data."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def place_of(stack: tuple[TunedPlugin, ...], *more: Any) -> str:
    """Return the key of a stack and what is trained with it: equal keys mean the same training."""
    return digest([_plain(stack), *more])


def key_of(trial: StackTrial) -> str:
    """Return the key of a trial that is planned: equal keys mean the same two stacks."""
    return digest([trial.action, trial.plugin, _plain(trial.stack), _plain(trial.without)])


def _plain(stack: tuple[TunedPlugin, ...]) -> list[Any]:
    return [[one.name, dict(one.settings)] for one in stack]
