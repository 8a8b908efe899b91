"""Read a recipe file, what it extends, and `--set`, to a `Recipe` or its problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import Problem, RecipeError, did_you_mean
from tfopt_core.recipe.chain import read_chain
from tfopt_core.recipe.model import PluginEntry, Recipe
from tfopt_core.recipe.overrides import apply_overrides, parse_overrides
from tfopt_core.recipe.paths import split_path
from tfopt_core.recipe.shipped import (
    find_recipe,
    folder_of,
    is_stream,
    names_nearby,
    shipped_recipes,
)
from tfopt_core.recipe.structure import ROOT_KEYS, entries_of, structure
from tfopt_core.recipe.tree import NOWHERE, Node, Place


@attrs.frozen
class Reading:
    """The result of reading a recipe.

    `problems` are ordered by file (the recipe, what it extends, `--set`) and line. `recipe` is
    None if it could not be structured; a problem such as an unknown key does not prevent that.
    `entries` are the plugins that could be read, so that their settings can be checked even if
    other parts are broken.
    """

    problems: tuple[Problem, ...]
    recipe: Recipe | None = None
    entries: tuple[PluginEntry, ...] = ()
    files: tuple[str, ...] = ()
    _root: Node = attrs.field(default=NOWHERE, eq=False, repr=False)

    def where(self, path: str) -> Place:
        """Return the place of a key: "measure.quality.metric", or "plugins.NAME.key".

        A key that was not given gets the line of the nearest key above it.
        """
        parts = split_path(path)
        if parts[:1] == ("plugins",) and len(parts) > 1:
            for entry in self.entries:
                if entry.use == parts[1]:
                    return entry.where.place_at(parts[2:])
        return self._root.place_at(parts)

    def problem(self, path: str, message: str, mend: str = "") -> Problem:
        """Return a problem at a key, see `where`."""
        return self.where(path).problem(message, mend)

    def value(self, path: str) -> Any:
        """Return the unchecked value of a key, None if it is not given.

        For checks that run even if the recipe has problems.
        """
        node = self._root
        for part in split_path(path):
            if not isinstance(node.value, dict) or part not in node.value:
                return None
            node = node.value[part]
        return node.plain()

    @property
    def directory(self) -> Path:
        """The folder that the recipe's relative paths start from."""
        return folder_of(Path(self.files[0] if self.files else "recipe.toml").absolute())

    def with_problems(self, more: Iterable[Problem]) -> Reading:
        """Return this reading with further problems in order.

        A problem at a place that has one already is left out.
        """
        taken = {(known.file, known.line, known.path) for known in self.problems}
        new = [extra for extra in more if (extra.file, extra.line, extra.path) not in taken]
        return attrs.evolve(self, problems=_ordered([*self.problems, *new], self.files))

    def require(self) -> Recipe:
        """Return the recipe. Raises RecipeError with all problems if there are any."""
        if self.problems or self.recipe is None:
            raise RecipeError(self.problems)
        return self.recipe


def read_recipe(
    target: str | Path,
    overrides: Sequence[str] = (),
    *,
    shipped: Mapping[str, Path] | None = None,
    text: str | None = None,
) -> Reading:
    """Read a recipe from a path or, for a string, from a shipped recipe's name.

    `overrides` are the texts of `--set`, "plugins.cache.storage=disk"; `shipped` replaces the
    shipped recipes; `text` is the recipe itself, as if it were in the file of the path. Bad input
    raises nothing: the reading holds the problems.
    """
    if shipped is None:
        shipped = shipped_recipes()
    problems: list[Problem] = []
    changes = parse_overrides(overrides, problems)
    path = Path(target)
    file = str(target) or '""'
    if isinstance(target, str):
        if target.endswith(".py"):
            mend = f"`tfopt apply {target}` and `tfopt init {target}` write a recipe for it"
            return Reading((Problem(file, 0, "", "a script is no recipe", mend),), files=(file,))
        found = find_recipe(target, shipped=shipped)
        if found is None and (not target or not os.path.isdir(path)):
            mend = did_you_mean(target, names_nearby(Path(), shipped))
            message = "there is no such file and no shipped recipe of this name"
            problems.insert(0, Problem(file, 0, "", message, mend or "`tfopt recipes` lists them"))
            return Reading(tuple(problems), files=(file,))
        if found is not None and found != path:
            path, file = found, str(found)
    chain = read_chain(path, file, shipped, text)
    problems += chain.problems
    layer = apply_overrides(chain.layer, changes, problems, complete=chain.complete)
    entries, fit = entries_of(layer.plugins, problems)
    recipe = structure(
        Recipe,
        layer.tables,
        problems,
        complete=chain.complete,
        known=ROOT_KEYS,
        name=_name_of(path),
        plugins=entries,
        path=path.absolute(),
    )
    files = (*chain.files, *(change.place.file for change in changes))
    reading = Reading((), recipe if fit else None, entries, files, layer.tables)
    return attrs.evolve(reading, problems=_ordered(problems, files))


def _name_of(path: Path) -> str:
    """Return the name of a recipe that gives itself none; one that is not UTF-8 gets substitutes,
    since results are stored under it."""
    stem = os.fsencode(path.stem).decode("utf-8", "replace").strip()
    return "recipe" if is_stream(path) or not stem else stem


def _ordered(problems: Iterable[Problem], files: Sequence[str]) -> tuple[Problem, ...]:
    ranks = {file: rank for rank, file in enumerate(files)}
    return tuple(sorted(problems, key=lambda p: (ranks.get(p.file, len(ranks)), p.line, p.column)))
