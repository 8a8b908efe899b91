"""Check that what an extra installs is there."""

from __future__ import annotations

import importlib

from tfopt_core.errors import InputError


def check_installed(package: str, name: str, *, extra: str, needed_by: str) -> None:
    """Check that an optional package is installed, before minutes of work that end with it.

    :param package: what is imported.
    :param name: what the package calls itself.
    :param extra: the extra of tfopt that installs it.
    :param needed_by: what needs it, in words: the begin of the error.
    :raises InputError: with what to do, if it is not installed.
    """
    try:
        importlib.import_module(package)
    except ImportError:
        raise InputError(
            f"{needed_by} needs {name}, which is not installed; run: "
            f"pip install 'tfopt[{extra}]' (or: pip install {package})"
        ) from None
