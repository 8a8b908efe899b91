"""Find the project that a folder belongs to."""

from __future__ import annotations

from pathlib import Path

# Files that mark the root of a project.
MARKERS = (".tfopt", ".git", "pyproject.toml", "setup.py")


def project_of(start: Path) -> Path:
    """Return the nearest project root, from this folder upwards; this folder if there is none."""
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return start
