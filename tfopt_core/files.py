"""Writing a file so that it is the old one or the new one, never a torn one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write or replace a file, by the permissions that the user's umask says.

    A link keeps pointing at the file that is replaced.

    :raises OSError: if it cannot be written; what was there stands.
    """
    path = path.resolve()
    temporary = path.with_name(f".tfopt-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
