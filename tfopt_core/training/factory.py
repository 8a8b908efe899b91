"""Load the `Workload` of a recipe's `[workload]` table, and find the file of a module."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from tfopt_core.errors import WorkloadError, describe, did_you_mean
from tfopt_core.hooks.installed.discovery import Registration, registrations
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.training.workload import Workload

GROUP = "tfopt.workloads"


def named_workloads() -> dict[str, tuple[Registration, ...]]:
    """Return the workloads that installed distributions register, by name."""
    return registrations(GROUP)


def missing_workload(spec: WorkloadSpec, directory: Path) -> str | None:
    """Return why a workload cannot be loaded, without importing it; None if nothing is wrong.

    Cheap enough for a recipe check: a name must be registered, a file must exist, and a module
    must be found.

    :param directory: where relative paths and modules start from.
    """
    if spec.use is not None:
        known = named_workloads()
        if spec.use in known:
            if len(known[spec.use]) == 1:
                return None
            both = " and ".join(f'"{r.distribution}" {r.version}' for r in known[spec.use])
            return f'two distributions register a workload "{spec.use}": {both}; uninstall one'
        hint = did_you_mean(spec.use, known) or f"the workloads are: {', '.join(known) or 'none'}"
        return f'no workload is named "{spec.use}"; {hint}'
    if spec.script is not None:
        path = directory / spec.script
        return None if os.path.isfile(path) else f'there is no script "{path}"'
    if spec.module is not None:
        try:
            module_file(spec.module, directory)
        except WorkloadError as error:
            return str(error)
    return None if spec.factory is None else _missing_callable(spec.factory, directory)


def _missing_callable(named: str, directory: Path) -> str | None:
    """Return why there is no file or module of "module:callable"; None if there is one."""
    place, separator, name = named.rpartition(":")
    if not separator or not place or not name:
        return f'"{named}" names no callable; write "module:callable" or "file.py:callable"'
    if place.endswith(".py"):
        path = directory / place
        return None if os.path.isfile(path) else f'there is no file "{path}"'
    top = place.partition(".")[0]
    with import_path(directory):
        exists = top in sys.modules or importlib.util.find_spec(top) is not None
    return None if exists else f'there is no module "{top}" in "{directory}" or installed'


def load_workload(recipe: Recipe) -> Workload:
    """Call the recipe's factory with its options.

    :raises WorkloadError: if it is missing, raises, or returns something that is no `Workload`.
    """
    spec = recipe.workload
    name = spec.use or spec.factory or ""
    factory = _find(recipe)
    baseline = recipe.measure.baseline
    # those of the baseline too: its first run comes late
    _check_options(name, factory, {**spec.options, **(baseline.options if baseline else {})})
    try:
        workload = factory(**spec.options)
    except WorkloadError:
        raise
    except (Exception, SystemExit) as error:
        raise WorkloadError(f'workload "{name}" {describe(error)}') from error
    if not isinstance(workload, Workload):
        raise WorkloadError(
            f'workload "{name}" returned type {type(workload).__name__}; return a '
            "tfopt_core.Workload"
        )
    return workload


def _find(recipe: Recipe) -> Callable[..., Any]:
    spec = recipe.workload
    missing = missing_workload(spec, recipe.directory)
    if missing is not None:
        raise WorkloadError(missing)
    name = spec.use or spec.factory or ""
    try:
        if spec.use is None:
            factory = _from_place(name, recipe.directory)
        else:
            factory = named_workloads()[name][0].entry_point.load()
    except WorkloadError:
        raise
    except (Exception, SystemExit) as error:
        raise WorkloadError(f'workload "{name}" cannot be imported: {describe(error)}') from error
    if not callable(factory):
        raise WorkloadError(f'workload "{name}" is not callable')
    return factory  # type: ignore[no-any-return]


def _from_place(factory: str, directory: Path) -> Any:
    place, _, name = factory.rpartition(":")
    # the import path is kept: the factory's functions may import neighbours when they are called
    sys.path.insert(0, str(directory))
    if place.endswith(".py"):
        path = (directory / place).resolve()
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    if not hasattr(module, name):
        hint = did_you_mean(name, vars(module))
        raise WorkloadError(f'"{place}" has no "{name}"' + (f"; {hint}" if hint else ""))
    return getattr(module, name)


def _check_options(name: str, factory: Callable[..., Any], options: dict[str, Any]) -> None:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            known = f"its options are: {', '.join(parameters) or 'none'}"
            hint = did_you_mean(option, parameters) or known
            raise WorkloadError(
                f'workload "{name}" has no option "{option}"; {hint}', option=option
            )


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
        folders = map(Path, spec.submodule_search_locations)
        neighbours = [file.stem for place in folders for file in place.glob("*.py")]
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
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise WorkloadError(f'the module "{name}" has no Python file')
    return Path(spec.origin).resolve()


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
