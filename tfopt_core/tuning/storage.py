"""Open the database in which Optuna keeps a search, and say what is wrong with it."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import Any

import attrs

from tfopt_core.errors import StoreError, describe

# A trial without a sign of life for two of these is tried again.
HEARTBEAT_SECONDS = 60
# Machines that begin together make the tables of a new database at once, and all but one fail.
TRIES, TRY_SECONDS = 4, 0.5


@attrs.frozen
class StudyStorage:
    """Optuna's storage of a database.

    :param shown: its URL with *** in place of a password.
    """

    shown: str
    optuna: Any = attrs.field(repr=False, eq=False)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Raise what a database or a lost connection raises within as an error of one line.

        :raises StoreError: naming the storage.
        """
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (StorageInternalError, SQLAlchemyError) as error:
            # the chain of causes may hold the password, and --debug prints it
            raise StoreError(
                f'the storage "{self.shown}" cannot be used: {_cause(error)}; the trials so far '
                "are kept, and --resume goes on"
            ) from None


def open_storage(url: str) -> StudyStorage:
    """Open the storage of a database, and create its tables if they are missing.

    :param url: as SQLAlchemy takes it.
    :raises StoreError: if it cannot be opened; names it without its password.
    """
    import optuna
    from sqlalchemy.engine import make_url

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        address = make_url(url)
    except Exception:
        raise StoreError(
            "give the URL of a database, such as sqlite:///search.db or postgresql://me@host/tuning"
        ) from None
    shown = address.render_as_string(hide_password=True)
    try:
        return StudyStorage(shown, _opened(url, address.get_backend_name() == "sqlite"))
    except Exception as error:  # a driver may raise anything
        raise StoreError(f'the storage "{shown}" cannot be used: {_cause(error)}') from None


def _opened(url: str, in_file: bool, tries: int = TRIES) -> Any:
    from optuna.storages import RDBStorage, RetryFailedTrialCallback
    from sqlalchemy.exc import DatabaseError

    # a server may close a connection that was idle for a long training; a file may be locked
    options: dict[str, Any] = {"pool_pre_ping": True}
    if in_file:
        options["connect_args"] = {"timeout": 60}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # heartbeats are marked as experimental
            return RDBStorage(
                url, engine_kwargs=options, heartbeat_interval=HEARTBEAT_SECONDS,
                failed_trial_callback=RetryFailedTrialCallback(),
            )  # fmt: skip
    except DatabaseError:
        if tries == 1:
            raise
    time.sleep(TRY_SECONDS)
    return _opened(url, in_file, tries - 1)


def _cause(error: BaseException) -> str:
    """Return what a database or the system said, in one line."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, ModuleNotFoundError):
            return f'its driver "{one.name}" is not installed; run: pip install {one.name}'
        # SQLAlchemy keeps what the database's driver raised
        if said := getattr(one, "orig", None):
            return " ".join(str(said).split())
        one = one.__cause__ or one.__context__
    return describe(error)
