"""Python files that are in no package: the scripts of tools/ and workloads/, an example."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from support.pages import ROOT


def load_file(path: Path) -> ModuleType:
    """Return the module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where the types of its fields are looked up
    spec.loader.exec_module(module)
    return module


def load_tool(name: str) -> ModuleType:
    """Return the module of a script in tools/, by its name without the suffix."""
    return load_file(ROOT / "tools" / f"{name}.py")
