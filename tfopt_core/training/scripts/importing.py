"""Run an action once a script has imported a library. No TensorFlow.

Not earlier: what a script sets before its imports must take effect as it does without tfopt.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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
            spec.loader = _ActionLoader(spec.loader, self._before, lambda: self._imported(name))
        return spec

    def _imported(self, name: str) -> None:
        action = self._actions.pop(name, None)
        if action is not None:
            action()


class _ActionLoader(Loader):
    """A module's own loader, between two actions."""

    def __init__(self, loader: Loader, before: Action, action: Action) -> None:
        self._loader, self._before, self._action = loader, before, action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # for code that reads resources through it
        module.__loader__ = self._loader
        self._before()
        self._loader.exec_module(module)
        self._action()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
