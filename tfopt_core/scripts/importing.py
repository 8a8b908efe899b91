"""Watch a script's imports: what it sets before them, and acting once it made them. No TensorFlow.

Not earlier: what a script sets before its imports must take effect as it does without tfopt.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# What a script may set and change nothing with it: messages, and values that tfopt sets itself.
HARMLESS_NAMES = frozenset({"TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MIN_VLOG_LEVEL"})
HARMLESS = frozenset({("KERAS_BACKEND", "tensorflow")})

Action = Callable[[], None]


class WhenImported(MetaPathFinder):
    """Calls an action once a module has been imported; at once if it already was.

    TensorFlow and Keras read the environment when they are imported: a script that changes it
    before cannot run in the fork of a process that has imported them. What it changes otherwise
    (`os.putenv`, the CPUs it may run on) is not seen.

    :param actions: by the name of a top-level module.
    :ivar changed: whether variables were changed while a module was still to be imported.
    """

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self._actions, self.changed = dict(actions), False
        self._searching: set[str] = set()
        self._environment: dict[str, str] | None = None

    def __enter__(self) -> WhenImported:
        for name in [name for name in self._actions if name in sys.modules]:
            self._actions.pop(name)()
        sys.meta_path.insert(0, self)
        self._environment = dict(os.environ)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, with a loader that calls the action."""
        if name not in self._actions or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is not None and spec.loader is not None:
            # (the caller may only check that the module exists, and never load it)
            self._act_around(name, spec.loader)
        return spec

    def _act_around(self, name: str, loader: Any) -> None:
        """Have a module's loader, which serves this module alone, act before and after it."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            self._note_changes()
            execute(module)
            self._environment = dict(os.environ)
            self._actions.pop(name, lambda: None)()

        loader.exec_module = exec_module

    def _note_changes(self) -> None:
        if self._environment is None:
            return  # within the import of another module, which may change it itself
        changes = (self._environment.items() ^ os.environ.items()) - HARMLESS
        self.changed |= any(name not in HARMLESS_NAMES for name, _ in changes)
        self._environment = None


def hides_modules(folder: str) -> bool:
    """Return whether the standard library or the environment has a module of a folder, too.

    A process that has imported it before the script begins gives it that in place of its own.
    """
    # an environment may lie in this folder
    elsewhere = [path for path in sys.path if os.path.realpath(path) != folder]
    for entry in os.scandir(folder):
        name, ending = os.path.splitext(entry.name)
        is_package = not ending and os.path.exists(os.path.join(entry.path, "__init__.py"))
        if (ending == ".py" or is_package) and (
            name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere) is not None
        ):
            return True
    return False
