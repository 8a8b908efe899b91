"""Find modules beside a script that hide others of the same name. No TensorFlow."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder


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
