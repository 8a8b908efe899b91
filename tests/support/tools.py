"""The scripts of tools/, which are in no package."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from support.pages import ROOT


def load_tool(name: str) -> ModuleType:
    """Return the module of a script in tools/, by its name without the suffix."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
