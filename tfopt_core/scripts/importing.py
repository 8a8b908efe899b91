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

import attrs

# What a script may set and change nothing with it: messages, and values that tfopt sets itself.
HARMLESS_NAMES = frozenset({"TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MIN_VLOG_LEVEL"})
HARMLESS = frozenset({("KERAS_BACKEND", "tensorflow")})

Action = Callable[[], None]


class WhenImported(MetaPathFinder):
    """Calls an action once a module has been imported; at once if it already was.

    :param actions: by the name of a top-level module.
    :param before: called before each of them is imported; never for one that already was.
    """

    def __init__(self, actions: Mapping[str, Action], before: Action = lambda: None) -> None:
        self._actions, self._before = dict(actions), before
        self._searching: set[str] = set()

    def __enter__(self) -> WhenImported:
        for name in [name for name in self._actions if name in sys.modules]:
            self._actions.pop(name)()
        sys.meta_path.insert(0, self)
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
            self._before()
            execute(module)
            self._actions.pop(name, lambda: None)()

        loader.exec_module = exec_module


@attrs.define
class EarlyEnvironment:
    """The variables that a script changes while the libraries are still to be imported.

    TensorFlow and Keras read them when they are imported: a script that changes them cannot run in
    the fork of a process that has imported them. What it changes otherwise (`os.putenv`, the CPUs
    it may run on) is not seen.

    :param changed: their names.
    """

    changed: tuple[str, ...] = ()
    _before: dict[str, str] | None = attrs.field(factory=lambda: dict(os.environ))

    def begin(self) -> None:
        """Watch from here on, until `note`: the next import is the script's."""
        self._before = dict(os.environ)

    def note(self) -> None:
        """Note the changes, just before a library is imported."""
        if self._before is None:
            return  # within the import of the other library, which may change it itself
        changes = (self._before.items() ^ os.environ.items()) - HARMLESS
        names = {name for name, _ in changes} - HARMLESS_NAMES
        self.changed = tuple(sorted(names.union(self.changed)))
        self._before = None


def hiding_modules(folder: str) -> tuple[str, ...]:
    """Return the modules of a folder that the standard library or the environment has, too.

    A process that has imported those before the script begins gives it them in place of its own.
    """
    # an environment may lie in this folder
    elsewhere = [path for path in sys.path if os.path.realpath(path) != folder]
    names = set()
    for entry in os.scandir(folder):
        name, ending = os.path.splitext(entry.name)
        is_package = not ending and os.path.exists(os.path.join(entry.path, "__init__.py"))
        if (ending == ".py" or is_package) and (
            name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere) is not None
        ):
            names.add(name)
    return tuple(sorted(names))
