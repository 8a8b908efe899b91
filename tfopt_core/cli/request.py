"""From a command's arguments to a measurement's request."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tfopt_core.errors import InputError
from tfopt_core.hooks import read_machine
from tfopt_core.measure.check import check_recipe
from tfopt_core.measure.request import Request
from tfopt_core.recipe import Recipe, shipped_recipes
from tfopt_core.training.runtime import check_environment

# What marks the root of a project, in the folder of the recipe or above it.
MARKERS = (".tfopt", ".git", "pyproject.toml", "setup.py")


def make_request(
    target: str,
    overrides: Sequence[str],
    *,
    compares: bool,
    save_to: Path | None = None,
    debug: bool = False,
) -> tuple[Request, Path]:
    """Check everything that can be checked without TensorFlow.

    :returns: the request, and the folder in which the project's results are kept.
    :raises InputError: for whatever is wrong, all problems of a recipe at once.
    """
    check_environment(os.environ)
    recipe, plugins = check_recipe(target, overrides, compares=compares)
    if save_to is not None:
        _check_save(save_to)
    results = project_folder(recipe) / ".tfopt"
    request = Request(
        recipe=recipe,
        plugins=plugins,
        machine=read_machine(),
        folder=results / "runs" / new_id(),
        environment=os.environ,
        save_to=save_to,
        debug=debug,
    )
    _make_ours(results)
    return request, results


def project_folder(recipe: Recipe) -> Path:
    """Where results are kept: the project of the recipe, that of the working directory for
    recipes that ship with tfopt."""
    start = Path.cwd()
    shipped = {path.resolve() for path in shipped_recipes().values()}
    if recipe.path is not None and recipe.path.resolve() not in shipped:
        start = recipe.path.absolute().parent
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return start


def new_id() -> str:
    """An id that sorts by time and collides with no other process."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _make_ours(folder: Path) -> None:
    """Create the results' folder, which git is told to leave alone."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")


def _check_save(path: Path) -> None:
    if path.suffix != ".keras":
        raise InputError(f'--save: "{path}" does not end in .keras, the format of Keras 3')
    if not path.absolute().parent.is_dir():
        raise InputError(f'--save: there is no folder "{path.parent}"')
