"""The SQLite file of a project: a run is in it before the next one begins."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from cattrs import Converter

from tfopt_core.errors import StoreError
from tfopt_core.store.overview import Overview, make_overview
from tfopt_core.store.results import Results, RunResult

DATABASE_VERSION = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS measurement (
    id TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    recipe TEXT NOT NULL,
    recipe_sha256 TEXT NOT NULL,
    request TEXT NOT NULL,
    results TEXT
);
CREATE TABLE IF NOT EXISTS run (
    id TEXT PRIMARY KEY,
    measurement TEXT NOT NULL REFERENCES measurement (id),
    round INTEGER NOT NULL,
    position INTEGER NOT NULL,
    variant TEXT NOT NULL,
    status TEXT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS run_of_measurement ON run (measurement, round, position);
"""

_converter = Converter()


@attrs.frozen
class Unfinished:
    """A measurement that may be resumed."""

    id: str
    created_at: str
    recipe: str
    recipe_sha256: str
    request: Mapping[str, Any]


class Store:
    """Keeps measurements and their runs; knows nothing of how they are made.

    :raises StoreError: if the file cannot be opened, is damaged, or is of a newer tfopt.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=30)
            with self._connection:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            self._set_up()
        except (OSError, sqlite3.Error) as error:
            raise self._failure("cannot be opened", error) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def begin(
        self,
        measurement: str,
        created_at: str,
        recipe: str,
        sha256: str,
        request: Mapping[str, Any],
    ) -> None:
        """Open a measurement; `request` is whatever it takes to understand its runs alone."""
        self._write(
            "INSERT INTO measurement (id, created_at, recipe, recipe_sha256, request) "
            "VALUES (?, ?, ?, ?, ?)",
            (measurement, created_at, recipe, sha256, json.dumps(request)),
        )

    def add_run(self, measurement: str, run: RunResult) -> None:
        """Keep a run, at once and whole."""
        data = json.dumps(_converter.unstructure(run))
        self._write(
            "INSERT INTO run (id, measurement, round, position, variant, status, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (run.id, measurement, run.round, run.position, run.variant, run.status, data),
        )

    def replace_runs(self, runs: Sequence[RunResult]) -> None:
        """Keep runs anew that are there already, all of them or none: a round set aside, say."""
        rows = [(run.status, json.dumps(_converter.unstructure(run)), run.id) for run in runs]
        try:
            with self._connection:
                self._connection.executemany(
                    "UPDATE run SET status = ?, data = ? WHERE id = ?", rows
                )
        except sqlite3.Error as error:
            raise self._failure("cannot be written", error) from error

    def update_request(self, measurement: str, request: Mapping[str, Any]) -> None:
        """Keep anew what it takes to understand and to resume a measurement."""
        self._write(
            "UPDATE measurement SET request = ? WHERE id = ?", (json.dumps(request), measurement)
        )

    def unfinished(self) -> tuple[Unfinished, ...]:
        """The measurements that were begun and never concluded, or interrupted; newest first."""
        rows = self._read(
            "SELECT id, created_at, recipe, recipe_sha256, request, results FROM measurement "
            "ORDER BY created_at DESC, id DESC",
            (),
        )
        return tuple(
            Unfinished(id_, created_at, recipe, sha256, json.loads(request))
            for id_, created_at, recipe, sha256, request, results in rows
            # not by SQLite's own JSON, which knows no nan
            if results is None or json.loads(results)["interrupted"]
        )

    def finish(self, results: Results) -> None:
        """Keep what was concluded; the runs are there already."""
        concluded = _converter.unstructure(attrs.evolve(results, runs=()))
        self._write(
            "UPDATE measurement SET results = ? WHERE id = ?", (json.dumps(concluded), results.id)
        )

    def runs(self, measurement: str) -> tuple[RunResult, ...]:
        """The runs of a measurement, in the order in which they were made."""
        rows = self._read(
            "SELECT data FROM run WHERE measurement = ? ORDER BY round, position", (measurement,)
        )
        return tuple(_converter.structure(json.loads(row[0]), RunResult) for row in rows)

    def results(self, measurement: str) -> Results | None:
        """A finished measurement whole; None if it is unknown or was never concluded."""
        rows = self._read("SELECT results FROM measurement WHERE id = ?", (measurement,))
        if not rows or rows[0][0] is None:
            return None
        results = _converter.structure(json.loads(rows[0][0]), Results)
        return attrs.evolve(results, runs=self.runs(measurement))

    def measurements(self) -> tuple[str, ...]:
        """The ids of all measurements, the oldest first."""
        return tuple(
            row[0] for row in self._read("SELECT id FROM measurement ORDER BY created_at, id", ())
        )

    @classmethod
    def existing(cls, path: Path) -> Store | None:
        """What is kept there, for reading only; None where nothing was ever kept.

        Nothing is created: no file, no folder, no table.

        :raises StoreError: if the file cannot be read, is damaged, or is of a newer tfopt.
        """
        store = cls.__new__(cls)
        store.path = path
        try:
            if not path.is_file():
                return None
            # not "ro": that one leaves its -wal and -shm behind, and cannot read after a crash;
            # where these cannot be made there must be none, and then nobody is writing
            written = path.with_name(f"{path.name}-wal").exists()
            how = "rw" if written or os.access(path.parent, os.W_OK) else "ro&immutable=1"
            place = f"{path.absolute().as_uri()}?mode={how}"
            store._connection = sqlite3.connect(place, uri=True, timeout=30)
            store._connection.execute("PRAGMA query_only = ON")
            (version,) = store._connection.execute("PRAGMA user_version").fetchone()
            if version == 0:  # another process is about to make the tables
                store.close()
                return None
            store._set_up()  # refuses what is newer; there is nothing else left to set up
        except (OSError, sqlite3.Error) as error:
            raise store._failure("cannot be opened", error) from error
        return store

    def overview(self) -> tuple[Overview, ...]:
        """Every measurement in short, the oldest first; what its runs hold is not read."""
        rows = self._read(
            "SELECT id, created_at, recipe, recipe_sha256, request, results, "
            "(SELECT COUNT(DISTINCT b.round) FROM run AS b JOIN run AS f USING (measurement, round)"
            " WHERE measurement = m.id AND b.variant = 'baseline' AND f.variant = 'full'"
            " AND b.status = 'ok' AND f.status = 'ok'), "
            "(SELECT COUNT(*) FROM run WHERE measurement = m.id) "
            "FROM measurement AS m ORDER BY created_at, id",
            (),
        )
        return tuple(
            make_overview(
                id_=id_, created_at=created_at, recipe=recipe, recipe_sha256=sha256,
                request=json.loads(request), concluded=json.loads(results) if results else None,
                pairs=pairs, runs=runs,
            )
            for id_, created_at, recipe, sha256, request, results, pairs, runs in rows
        )  # fmt: skip

    def request_of(self, measurement: str) -> Mapping[str, Any]:
        """What `begin` was given for it; empty for an unknown measurement."""
        rows = self._read("SELECT request FROM measurement WHERE id = ?", (measurement,))
        return dict(json.loads(rows[0][0])) if rows else {}

    def _set_up(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > DATABASE_VERSION:
            raise StoreError(
                f'"{self.path}" was written by a newer tfopt (schema {version}, this one knows '
                f"{DATABASE_VERSION}); upgrade tfopt, or move the file away"
            )
        if version == 0:
            # one transaction: two processes may come here at once
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {DATABASE_VERSION}; COMMIT;"
            )

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            with self._connection:
                self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._failure("cannot be written", error) from error

    def _read(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._failure("cannot be read", error) from error

    def _failure(self, what: str, error: Exception) -> StoreError:
        return StoreError(
            f'the results file "{self.path}" {what}: {error}; nothing in it was overwritten'
        )


def store_path(project: Path) -> Path:
    """Where the results of a project are kept."""
    return project / ".tfopt" / "runs.sqlite"
