"""Import the libraries that tfopt requires from where they are installed, never a file of a user.

A run's process has the folder of its script or workload first on its import path, as in Python. A
file in that folder must not replace a library that tfopt imports later on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import attrs

# The modules of the distributions that tfopt requires (pyproject.toml).
LIBRARIES = frozenset({
    "attr", "attrs", "cattr", "cattrs", "click", "keras", "numpy", "pluggy", "psutil", "rich",
    "rich_click", "scipy", "tensorflow", "tomlkit",
})  # fmt: skip


@attrs.frozen(eq=False)
class InstalledLibraries(MetaPathFinder):
    """Finds these libraries on a given import path, and nothing else.

    :param path: the import path without the folders of the user's code.
    """

    path: tuple[str, ...]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a library is installed, None for any other module."""
        if name not in LIBRARIES:
            return None
        return PathFinder.find_spec(name, self.path, target)


def pin_libraries() -> None:
    """Import these libraries from the present import path, even after it changes."""
    sys.meta_path.insert(0, InstalledLibraries(tuple(sys.path)))
