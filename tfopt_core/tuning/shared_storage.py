"""Open Optuna's storage, in which machines share a search, and say what is wrong with it."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import attrs

from tfopt_core.errors import InputError, StoreError, TfoptError, describe

JOURNAL = "journal:"
# Machines that begin together make the tables of a new database at once, and all but one fail.
TRIES, TRY_SECONDS = 4, 0.5
# In a URL: what stands between "//user:" and the last "@", and what a query says.
_PASSWORD = re.compile(r"(?<=://)([^/:@]*):(?P<secret>.*)@")
_QUERY = re.compile(r"(?<=[?&])((?:password|passwd|pwd)=)(?P<secret>[^&]*)", re.IGNORECASE)
_HIDDEN = "***"
_EXAMPLES = "give a path, journal:PATH or a database's URL, such as postgresql://me@host/tuning"


@attrs.frozen
class SharedStorage:
    """Optuna's storage, and its address as it may be shown, without a password.

    :param url: the address as it was given; it is never shown.
    """

    url: str = attrs.field(repr=False)
    optuna: Any = attrs.field(default=None, repr=False, eq=False)

    @property
    def shown(self) -> str:
        """The address with *** in place of a password."""
        return _QUERY.sub(rf"\1{_HIDDEN}", _PASSWORD.sub(rf"\1:{_HIDDEN}@", self.url))

    @contextlib.contextmanager
    def guarded(self, as_error: Callable[[str], TfoptError] | None = None) -> Iterator[None]:
        """Raise what fails within as an error of one line, without a password.

        The body holds calls of Optuna alone: what it raises for a damaged file or a lost
        connection may be any exception.

        :param as_error: makes the error of a message; None for a `StoreError` of a search that is
            under way.
        """
        try:
            yield
        except TfoptError:
            raise
        except Exception as error:
            why = self._without_secrets(_cause(error))
            # the chain of causes may hold the password, and --debug prints it
            raise (as_error or _lost)(f'the storage "{self.shown}" cannot be used: {why}') from None

    def _without_secrets(self, text: str) -> str:
        text = text.replace(self.url, self.shown)
        for pattern in (_PASSWORD, _QUERY):
            for match in pattern.finditer(self.url):
                for secret in {match["secret"], unquote(match["secret"])} - {""}:
                    text = text.replace(secret, _HIDDEN)
        return text


def open_storage(url: str) -> SharedStorage:
    """Open a storage, and check that it can be read and written.

    :raises InputError: if it cannot; names it without its password.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    address = SharedStorage(url)
    with address.guarded(_option_error):
        storage = _journal(address) if "://" not in url else _database(url)
        # so that a storage that only reads is noticed before the search, not after its first hour
        probe = storage.create_new_study(
            [optuna.study.StudyDirection.MAXIMIZE], f"tfopt-probe-{uuid4()}"
        )
        storage.delete_study(probe)
    return attrs.evolve(address, optuna=storage)


def _lost(message: str) -> StoreError:
    return StoreError(f"{message}; the trials so far are kept, and --resume with --storage goes on")


def _option_error(message: str) -> InputError:
    return InputError(f"--storage: {message}")


def _journal(address: SharedStorage) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    name = address.url.removeprefix(JOURNAL)
    path = Path(name).expanduser().absolute()
    if not name or path.is_dir():
        raise _option_error(f'"{address.shown}" names no file; {_EXAMPLES}')
    if not path.parent.is_dir():
        raise _option_error(
            f'"{address.shown}": there is no folder "{path.parent}"; create it, or {_EXAMPLES}'
        )
    path.touch()
    # Optuna's own choice, a link, is never freed where a machine mounts the folder at another path
    lock = JournalFileOpenLock(str(path))
    lock.acquire()
    try:
        # Optuna notices a damaged line late, or appends to a file that is no journal
        if path.exists() and (number := _damaged_line(path)):
            raise _option_error(
                f'line {number} of "{address.shown}" is damaged, or it is no journal of Optuna; '
                "nothing was written to it: name another file, or remove the line"
            )
    finally:
        lock.release()
    return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))


def _damaged_line(path: Path) -> int:
    """Return the number of the first line that is no entry of a journal, from 1; 0 for none."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if not isinstance(entry, dict) or "op_code" not in entry:
                return number
    return 0


def _database(url: str) -> Any:
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import DatabaseError

    # a database may close a connection that was idle for a long training
    options = {"pool_pre_ping": True}
    for _ in range(TRIES - 1):
        with contextlib.suppress(DatabaseError):
            return RDBStorage(url, engine_kwargs=options)
        time.sleep(TRY_SECONDS)
    return RDBStorage(url, engine_kwargs=options)


def _cause(error: BaseException) -> str:
    """Return what a database or the system said, in one line."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, ModuleNotFoundError):
            return f'its driver "{one.name}" is not installed; run: pip install {one.name}'
        if isinstance(one, OSError) and one.strerror:
            return one.strerror.lower()
        # SQLAlchemy keeps what the database's driver raised
        said = getattr(one, "orig", None)
        if said is not None:
            return " ".join(str(said).split())
        one = one.__cause__ or one.__context__
    return describe(error)
