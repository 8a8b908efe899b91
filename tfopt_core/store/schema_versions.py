"""Refuse results whose figures mean something else here than where they were written."""

from __future__ import annotations

from tfopt_core.errors import InputError


def check_version(written: int, known: int, what: str) -> None:
    """Refuse results of another version.

    :param written: the version of the results.
    :param known: the version of this tfopt.
    :param what: the results and what was done, such as `"m" was concluded`.
    :raises InputError: naming both versions.
    """
    if written > known:
        raise InputError(
            f"{what} by a newer tfopt (schema {written}, this one knows {known}); upgrade tfopt"
        )
    if written < known:
        raise InputError(
            f"{what} by an older tfopt (schema {written}, this one knows {known}); measure again"
        )
