"""Open the SQLite file of a project, and create its tables."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from tfopt_core.errors import StoreError

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


def connect(path: Path) -> sqlite3.Connection:
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
        raise failure(path, "cannot be opened", error) from error
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection | None:
    """Open the file read-only, and create nothing; return None if there is no file.

    :raises StoreError: if the file cannot be read, is damaged, or is of a newer tfopt.
    """
    try:
        if not path.is_file():
            return None
        # not "ro": it leaves its -wal and -shm behind, and cannot read after a crash;
        # if the folder is read-only and there is no -wal, nobody is writing
        written = path.with_name(f"{path.name}-wal").exists()
        how = "rw" if written or os.access(path.parent, os.W_OK) else "ro&immutable=1"
        place = f"{path.absolute().as_uri()}?mode={how}"
        connection = sqlite3.connect(place, uri=True, timeout=30)
        connection.text_factory = _text
        connection.execute("PRAGMA query_only = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # another process is about to make the tables
            connection.close()
            return None
        _set_up(connection, path)  # refuses a newer file; the tables exist already
    except (OSError, sqlite3.Error) as error:
        raise failure(path, "cannot be opened", error) from error
    return connection


def failure(path: Path, what: str, error: Exception) -> StoreError:
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
