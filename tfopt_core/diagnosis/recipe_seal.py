"""Mark the recipe that tfopt writes for a script, so that a changed one is never overwritten."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tfopt_core.errors import InputError

_SEAL = "# unchanged since tfopt wrote it: "


def sealed(text: str) -> str:
    """Return the text with a last line that reveals later changes."""
    return f"{text}\n{_SEAL}{_digest(text)}\n"


def is_unchanged(text: str) -> bool:
    """Return whether a file is as tfopt wrote it, so that tfopt may overwrite it."""
    body, mark, digest = text.rpartition(f"\n{_SEAL}")
    return bool(mark) and digest.strip() == _digest(body)


def check_free(path: Path) -> None:
    """Check that the recipe may be written, before minutes of measuring.

    :raises InputError: if it exists and was changed by hand.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f'"{path}" cannot be read: {error}; name another file with --write') \
            from error  # fmt: skip
    if not is_unchanged(text):
        raise InputError(
            f'"{path.name}" exists already and was changed since tfopt wrote it; measure it with '
            f'"tfopt apply {path.name}", or name another file with --write'
        )


def _digest(text: str) -> str:
    return hashlib.sha256(re.sub(r"\s+", " ", text).strip().encode()).hexdigest()[:16]
