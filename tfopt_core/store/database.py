"""Read and write the SQLite file of a project. Each run is written before the next one begins."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import DamagedMeasurement, StoreError
from tfopt_core.statistics.results import SCHEMA_VERSION, Results
from tfopt_core.statistics.runs import RunResult
from tfopt_core.store.decoding import (
    Overview,
    check_version,
    converter,
    make_overview,
    parse_table,
    reading,
)

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


class Store:
    """The measurements and runs in a file.

    :raises StoreError: if the file cannot be opened, is damaged, or is of a newer tfopt.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._connection = _connect(path) if connection is None else connection

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def begin(
        self, measurement: str, created_at: str, recipe: str, sha256: str,
        request: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Begin a measurement; `request` holds everything needed to read its runs later."""
        self._write(
            "INSERT INTO measurement (id, created_at, recipe, recipe_sha256, request) "
            "VALUES (?, ?, ?, ?, ?)",
            (measurement, created_at, recipe, sha256, json.dumps(request)),
        )

    def add_run(self, measurement: str, run: RunResult) -> None:
        """Write a run in one transaction."""
        data = json.dumps(converter.unstructure(run))
        self._write(
            "INSERT INTO run (id, measurement, round, position, variant, status, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (run.id, measurement, run.round, run.position, run.variant, run.status, data),
        )

    def update_request(self, measurement: str, **parts: Any) -> None:
        """Overwrite parts of the request of a measurement."""
        request = json.dumps({**self.request_of(measurement), **parts})
        self._write("UPDATE measurement SET request = ? WHERE id = ?", (request, measurement))

    def unfinished(self) -> tuple[Overview, ...]:
        """Return the measurements that were never concluded, or interrupted, the newest first.

        Those that cannot be read are included, with their damage; they may even be finished.
        """
        return tuple(one for one in reversed(self.overview()) if one.state != "finished")

    def finish(self, results: Results) -> None:
        """Write the results of a measurement, without its runs."""
        concluded = converter.unstructure(attrs.evolve(results, runs=()))
        self._write(
            "UPDATE measurement SET results = ? WHERE id = ?", (json.dumps(concluded), results.id)
        )

    def runs(self, measurement: str) -> tuple[RunResult, ...]:
        """Return the runs of a measurement, in the order in which they ran.

        :raises DamagedMeasurement: if one of them cannot be read.
        """
        runs = []
        for id_, data in self._read(
            "SELECT id, CAST(data AS BLOB) FROM run WHERE measurement = ? "
            "ORDER BY round, position",
            (measurement,), of=measurement,
        ):  # fmt: skip
            with reading(measurement, self.path, f'run "{id_}"'):
                runs.append(converter.structure(parse_table(data), RunResult))
        return tuple(runs)

    def results(self, measurement: str) -> Results | None:
        """Return a finished measurement with its runs; None if it is unknown or never concluded.

        :raises DamagedMeasurement: if its results or one of its runs cannot be read.
        :raises InputError: if a newer tfopt concluded it.
        """
        concluded = self._table(measurement, "results")
        if concluded is None:
            return None
        with reading(measurement, self.path, "its results"):
            version = int(concluded.get("schema_version", SCHEMA_VERSION))
            check_version(version, SCHEMA_VERSION, f'"{measurement}" was concluded')
            results = converter.structure(concluded, Results)
        return attrs.evolve(results, runs=self.runs(measurement))

    def measurements(self) -> tuple[str, ...]:
        """Return the ids of all measurements, the oldest first."""
        return tuple(begun[0] for begun in self._begun())

    @classmethod
    def existing(cls, path: Path) -> Store:
        """Open the store of a path read-only; it is empty if there is no file.

        Nothing is created: no file, no folder, no table.

        :raises StoreError: if the file cannot be read, is damaged, or is of a newer tfopt.
        """
        return cls(path, _connect_to_read(path))

    def overview(self) -> tuple[Overview, ...]:
        """Return an overview of every measurement, the oldest first, without reading their runs.

        Damaged measurements are included and marked.
        """
        overviews = []
        for begun in self._begun():
            try:
                overviews.append(self._overview(begun))
            except DamagedMeasurement as error:
                counted = "SELECT COUNT(*) FROM run WHERE measurement = ?"
                [(runs,)] = self._read(counted, (begun[0],))
                plain = make_overview(begun, {}, None, {"pairs": 0, "runs": runs})
                overviews.append(attrs.evolve(plain, state="damaged", damage=error.cause))
        return tuple(overviews)

    def overview_of(self, measurement: str) -> Overview:
        """Return the overview of one measurement.

        :raises DamagedMeasurement: if it cannot be read.
        """
        [begun] = [begun for begun in self._begun() if begun[0] == measurement]
        return self._overview(begun)

    def _overview(self, begun: tuple[str, str, str, str]) -> Overview:
        id_ = begun[0]
        request, concluded = self.request_of(id_), self._table(id_, "results")
        [(pairs, runs)] = self._read(
            "SELECT (SELECT COUNT(DISTINCT b.round) FROM run AS b JOIN run AS f "
            "USING (measurement, round) WHERE measurement = ? AND b.variant = 'baseline' "
            "AND f.variant = 'full' AND b.status = 'ok' AND f.status = 'ok'), "
            "(SELECT COUNT(*) FROM run WHERE measurement = ?)",
            (id_, id_), of=id_,
        )  # fmt: skip
        with reading(id_, self.path, "its request or its results"):
            return make_overview(begun, request, concluded, {"pairs": pairs, "runs": runs})

    def request_of(self, measurement: str) -> Mapping[str, Any]:
        """Return the request of a measurement; empty if it is unknown.

        :raises DamagedMeasurement: if it cannot be read.
        """
        return self._table(measurement, "request") or {}

    def _table(self, measurement: str, column: str) -> Mapping[str, Any] | None:
        """Return the request, or the results without their runs, as plain data; None for none."""
        rows = self._read(
            f"SELECT CAST({column} AS BLOB) FROM measurement WHERE id = ?",
            (measurement,), of=measurement,
        )  # fmt: skip
        if not rows or rows[0][0] is None:
            return None
        with reading(measurement, self.path, f"its {column}"):
            return parse_table(rows[0][0])

    def _begun(self) -> tuple[tuple[str, str, str, str], ...]:
        """Return id, time, recipe and recipe hash of every measurement, the oldest first."""
        statement = "SELECT id, created_at, recipe, recipe_sha256 FROM measurement"
        return tuple(self._read(f"{statement} ORDER BY created_at, id", ()))

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            with self._connection:
                self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise _failure(self.path, "cannot be written", error) from error

    def _read(self, statement: str, values: tuple[Any, ...], of: str | None = None) -> list[Any]:
        """Return the rows of a query.

        :param of: the measurement, if only one is read.
        :raises DamagedMeasurement: if SQLite reports malformed data of that measurement.
        :raises StoreError: if the file cannot be read.
        """
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            # an OperationalError is about the file or the system: locked, no memory, an I/O error
            if of is None or isinstance(error, sqlite3.OperationalError):
                raise _failure(self.path, "cannot be read", error) from error
            raise DamagedMeasurement(of, str(self.path), str(error)) from error


def store_path(project: Path) -> Path:
    """Return the path of a project's results file."""
    return project / ".tfopt" / "runs.sqlite"


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file to read and write; create folder, file and tables if they are missing.

    :raises StoreError: if the file cannot be opened, is damaged, or is of a newer tfopt.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=30)
        connection.text_factory = _text
        with connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        _set_up(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise _failure(path, "cannot be opened", error) from error
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Open the file read-only, and create nothing; without a file there are tables in memory.

    :raises StoreError: if the file cannot be read, is damaged, or is of a newer tfopt.
    """
    connection = sqlite3.connect(":memory:")
    try:
        if path.is_file():
            # not "ro": it leaves its -wal and -shm behind, and cannot read after a crash;
            # if the folder is read-only and there is no -wal, nobody is writing
            written = path.with_name(f"{path.name}-wal").exists()
            how = "rw" if written or os.access(path.parent, os.W_OK) else "ro&immutable=1"
            place = f"{path.absolute().as_uri()}?mode={how}"
            stored = sqlite3.connect(place, uri=True, timeout=30)
            (version,) = stored.execute("PRAGMA user_version").fetchone()
            if version:  # otherwise another process is about to make the tables
                connection = stored
        connection.text_factory = _text
        _set_up(connection, path)  # refuses a newer file
        connection.execute("PRAGMA query_only = ON")
    except (OSError, sqlite3.Error) as error:
        raise _failure(path, "cannot be opened", error) from error
    return connection


def _failure(path: Path, what: str, error: Exception) -> StoreError:
    """Return the error that says what cannot be done with the file."""
    return StoreError(f'the results file "{path}" {what}: {error}; nothing in it was overwritten')


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > DATABASE_VERSION:
        raise StoreError(
            f'"{path}" was written by a newer tfopt (schema {version}, this one knows '
            f"{DATABASE_VERSION}); upgrade tfopt, or move the file away"
        )
    if version == 0:
        # one transaction: two processes may be here at once
        connection.executescript(
            f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {DATABASE_VERSION}; COMMIT;"
        )


def _text(data: bytes) -> str:
    """Decode a name or a time; one damaged byte must not make all rows of a query unreadable."""
    return data.decode("utf-8", "replace")
