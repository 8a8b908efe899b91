"""Find the file of a module as `python -m` does, without importing its packages. No TensorFlow."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from tfopt_core.errors import WorkloadError, did_you_mean


def module_file(name: str, folder: Path) -> Path:
    """Return the file that `python -m name` runs in this folder, resolved; `__main__.py` for a
    package.

    :raises WorkloadError: if there is none.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        hint = " (without .py, with dots)" if "/" in name or name.endswith(".py") else ""
        raise WorkloadError(f'"{name}" is no module, such as package.train{hint}')
    top, *rest = name.split(".")
    with import_path(folder):
        spec = (
            importlib.util.find_spec(top) if top not in sys.modules else sys.modules[top].__spec__
        )
    found, missing = top, f'in "{folder}" or installed'
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            break
        found, missing = f"{found}.{part}", f'in the package "{found}"'
        neighbours = _modules_in(spec.submodule_search_locations)
        spec = PathFinder.find_spec(found, spec.submodule_search_locations)
        if spec is None and (hint := did_you_mean(part, neighbours)):
            missing += f"; {hint}"
    if spec is None:
        raise WorkloadError(f'there is no module "{found}" {missing}')
    if found != name:
        raise WorkloadError(f'"{found}" is a module, not a package, so it has no "{name}"')
    if spec.submodule_search_locations is not None:
        spec = PathFinder.find_spec(f"{name}.__main__", spec.submodule_search_locations)
        if spec is None:
            raise WorkloadError(f'"{name}" is a package without a __main__.py; name a module of it')
    return _source_of(spec, name)


def _source_of(spec: ModuleSpec, name: str) -> Path:
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise WorkloadError(f'the module "{name}" has no Python file')
    return Path(spec.origin).resolve()


def _modules_in(folders: list[str]) -> list[str]:
    return [file.stem for folder in folders for file in Path(folder).glob("*.py")]


@contextmanager
def import_path(folder: Path) -> Iterator[None]:
    """Put a folder on the import path during a look-up."""
    entry = str(folder)
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(entry)
