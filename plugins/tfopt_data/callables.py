"""A function that a recipe names: "package.module:function" or "path/to/file.py:function"."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import describe, did_you_mean


def is_place(_: Any, attribute: Any, value: str | None) -> None:
    """An attrs validator: None, or a place with a module or file before its last colon."""
    if value is None:
        return
    place, separator, name = value.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise ValueError(
            f'{attribute.name} "{value}" names no function; write "module:function" or '
            '"file.py:function"'
        )


def load_function(place: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """The function at a place.

    :param folders: where a file is looked for, in this order; a module is looked for there too.
    :raises PluginRefused: if it is not there, cannot be imported, or is no function.
    """
    where, _, name = place.rpartition(":")
    first, *others = map(str, folders)
    if first not in sys.path:  # the function's module may import its neighbours
        sys.path.insert(0, first)
    # behind what is installed: a file there must not take a library's place
    sys.path += [folder for folder in others if folder not in sys.path]
    try:
        module = _file(where, folders) if where.endswith(".py") else importlib.import_module(where)
    except PluginRefused:
        raise
    except ModuleNotFoundError as error:
        raise PluginRefused(f'there is no module "{error.name}", asked for by "{place}"') from error
    except (Exception, SystemExit) as error:
        raise PluginRefused(f'"{where}" cannot be imported: {describe(error)}') from error
    found = getattr(module, name, None)
    if found is None:
        hint = did_you_mean(name, vars(module))
        raise PluginRefused(f'"{where}" has no "{name}"' + (f"; {hint}" if hint else ""))
    if not callable(found):
        raise PluginRefused(f'"{place}" is a {type(found).__name__}; name a function')
    return found  # type: ignore[no-any-return]


def _file(where: str, folders: Sequence[Path]) -> Any:
    path = next((folder / where for folder in folders if (folder / where).is_file()), None)
    if path is None:
        raise PluginRefused(f'there is no file "{where}" in "{folders[0]}" or on the import path')
    if str(path.resolve().parent) not in sys.path:
        sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module
