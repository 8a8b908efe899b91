"""Notes of what a script writes outside its private folder, where nothing is isolated."""

from __future__ import annotations

import os
import sys
import tempfile

import attrs

from tfopt_core.training.scripts.stand_ins import is_within

MOST_NOTES = 50
# Written by Python, by libraries and by tfopt for themselves, wherever they lie.
_NOBODYS = frozenset({".tfopt", "__pycache__", "site-packages", "dist-packages"})


def system_folders() -> tuple[str, ...]:
    """The folders in which programs write for themselves: temporary files, devices, caches."""
    home = os.path.expanduser("~")
    named = [
        os.environ.get(variable)
        for variable in ("KERAS_HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    ]
    caches = [f"{home}/{name}" for name in (".cache", ".config", ".keras", ".nv")]
    folders = [tempfile.gettempdir(), "/dev", "/proc", "/sys", "/run", sys.prefix, *caches, *named]
    return tuple({os.path.realpath(folder) for folder in folders if folder})


@attrs.frozen(eq=False)
class Outside:
    """The paths outside, each once, in the order of their first write.

    :param original: what is written here is noted wherever it lies, even in a temporary folder.
    :param unnoted: folders that are nobody's business.
    """

    original: str
    unnoted: tuple[str, ...]
    paths: dict[str, None] = attrs.field(factory=dict)

    def note(self, path: str) -> None:
        """Note a write to this absolute path, if it is worth it."""
        path = os.path.normpath(path)
        if path in self.paths or len(self.paths) >= MOST_NOTES:
            return
        if not _NOBODYS.isdisjoint(path.split("/")):
            return
        if is_within(path, self.original) or not any(
            is_within(path, folder) for folder in self.unnoted
        ):
            self.paths[path] = None
