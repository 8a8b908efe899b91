"""Read a recipe file, what it extends, and `--set`, to a `Recipe` or its problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import Problem, RecipeError, did_you_mean
from tfopt_core.recipe.formats import Word
from tfopt_core.recipe.layers import (
    Override,
    apply_overrides,
    below,
    is_enabled,
    merge_layers,
    parse_overrides,
    read_layer,
)
from tfopt_core.recipe.model import MeasureSpec, PluginEntry, Recipe, WorkloadSpec
from tfopt_core.recipe.shipped import find_recipe, folder_of, is_stream, names_nearby
from tfopt_core.recipe.table import Table, configure, keys_of
from tfopt_core.recipe.toml import parse_toml, read_bytes
from tfopt_core.recipe.tree import NOWHERE, Node, Place, join_path, place_values, split_path
from tfopt_core.recipe.values import faults_of

ROOT_KEYS = frozenset({"extends", "plugins"})  # read before a recipe is structured


@attrs.frozen
class UnwrittenRecipe:
    """A recipe that is in no file yet.

    :param path: where it would lie, from which its relative paths start.
    :param data: what the file would hold.
    :param label: what messages name in place of the file, such as the script that it is for.
    """

    path: Path
    data: Mapping[str, Any]
    label: str


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
    path: Path = Path("recipe.toml")
    _root: Node = attrs.field(default=NOWHERE, eq=False, repr=False)

    def problem(self, path: str, message: str, mend: str = "") -> Problem:
        """Return a problem at a key: "measure.quality.metric", or "plugins.NAME.key".

        A key that was not given gets the line of the nearest key above it.
        """
        return self._root.place_at(split_path(path)).problem(message, mend)

    def value(self, path: str) -> Any:
        """Return the unchecked value of a key, None if it is not given.

        For checks that run even if the recipe has problems.
        """
        *above, name = map(str, split_path(path))
        found = below(self._root, *above).get(name)
        return None if found is None else found.plain()

    @property
    def directory(self) -> Path:
        """The folder that the recipe's relative paths start from."""
        return folder_of(self.path.absolute())

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


def read_recipe(target: str | Path | UnwrittenRecipe, overrides: Sequence[str] = ()) -> Reading:
    """Read a recipe from a path or, for a string, from a shipped recipe's name.

    `overrides` are the texts of `--set`, "plugins.cache.storage=disk". Bad input raises nothing:
    the reading holds the problems.
    """
    problems: list[Problem] = []
    changes = parse_overrides(overrides, problems)
    if isinstance(target, UnwrittenRecipe):
        layer = read_layer(place_values(dict(target.data), target.label, {}), problems)
        return _structured(target.path, layer, (target.label,), changes, problems)
    path = Path(target)
    file = str(target) or '""'
    if isinstance(target, str):
        if target.endswith(".py"):
            mend = f"`tfopt apply {target}` and `tfopt init {target}` write a recipe for it"
            return Reading((Problem(file, 0, "", "a script is no recipe", mend),), files=(file,))
        found = find_recipe(target)
        if found is None and (not target or not os.path.isdir(path)):
            mend = did_you_mean(target, names_nearby(Path()))
            message = "there is no such file and no shipped recipe of this name"
            problems.insert(0, Problem(file, 0, "", message, mend or "`tfopt recipes` lists them"))
            return Reading(tuple(problems), files=(file,))
        if found is not None and found != path:
            path, file = found, str(found)
    root, files, complete = _read_chain(path, file, problems)
    return _structured(path, root, files, changes, problems, complete=complete)


def _structured(
    path: Path, layer: Node, files: Sequence[str], changes: Sequence[Override],
    problems: list[Problem], *, complete: bool = True,
) -> Reading:  # fmt: skip
    """Return the recipe of a layer with the changes of `--set`, and all problems.

    :param problems: those of the files.
    :param complete: whether the layer holds all: what is missing may stand in what is not read.
    """
    root = apply_overrides(layer, changes, problems, complete=complete)
    stack = root.table().get("plugins", NOWHERE).table()
    entries, fit = [], True
    for name, plugin in stack.items():
        if is_enabled(plugin):
            entries.append(PluginEntry.of(name, plugin))
            faults = faults_of(entries[-1].settings, Any)
            problems += plugin.problems(faults)
            fit = fit and not faults
    recipe, wrong = configure(
        Recipe, {key: one.plain() for key, one in root.table().items() if key not in ROOT_KEYS},
        _mend_unknown, complete=complete, name=_name_of(path), plugins=tuple(entries),
        path=path.absolute(),
    )  # fmt: skip
    problems += root.problems(wrong)
    files = (*files, *(change.place.file for change in changes))
    in_order = _ordered(problems, files)
    return Reading(in_order, recipe if fit else None, tuple(entries), files, path, root)


def _read_chain(
    path: Path, file: str, problems: list[Problem]
) -> tuple[Node, tuple[str, ...], bool]:
    """Read a recipe with everything that it extends, and append the problems.

    :returns: the recipe merged with its bases; the names of their files in messages, the recipe
        first; and whether all could be read: if not, a key that is missing may be in another.
    """
    layers: list[Node] = []
    seen: dict[str, str] = {}  # real path -> name for messages
    place = Place(file, 0, "")
    base: Path | None = path
    while base is not None:
        try:
            root = parse_toml(read_bytes(base), file)
        except RecipeError as error:
            problems += error.problems
            break
        except ValueError as cause:
            # If a base cannot be opened, the problem is at the line that names it.
            problems.append(place.problem(f'"{file}": {cause}' if layers else str(cause)))
            break
        seen[os.path.realpath(base)] = file
        layers.append(read_layer(root, problems))
        extends = root.table().get("extends")
        if extends is None:
            break
        path, place = base, extends.place
        base = _base_of(extends, path, seen, problems)
        if base is not None:
            # names are relative to the same folder as the recipe's
            name = str(extends.value)
            beside = os.path.join(os.path.dirname(file), name)
            file = beside if base == path.parent / name else str(base)
    complete = bool(layers) and "extends" not in layers[-1].table()
    merged = layers.pop() if layers else Node({}, Place(file, 0, ""))
    while layers:
        merged = merge_layers(merged, layers.pop())
    return merged, tuple(seen.values()) or (file,), complete


def _base_of(
    extends: Node, path: Path, seen: Mapping[str, str], problems: list[Problem]
) -> Path | None:
    if wrong := extends.problems(faults_of(extends.plain(), Word)):
        problems += wrong
        return None
    name = str(extends.value)
    folder = folder_of(path)
    base = find_recipe(name, folder=folder)
    if base is None:
        mend = did_you_mean(name, names_nearby(folder))
        message = f'there is no file and no shipped recipe "{name}"'
        problems.append(extends.place.problem(message, mend))
        return None
    real = os.path.realpath(base)
    if real in seen:
        files = list(seen.values())
        ring = [*files[list(seen).index(real) :], seen[real]]
        shown = " extends ".join(f'"{file}"' for file in ring)
        message = f"the recipe extends itself: {shown}"
        problems.append(extends.place.problem(message, "take out one of these lines"))
        return None
    return base


def _name_of(path: Path) -> str:
    """Return the name of a recipe that gives itself none; one that is not UTF-8 gets substitutes,
    since results are stored under it."""
    stem = os.fsencode(path.stem).decode("utf-8", "replace").strip()
    return "recipe" if is_stream(path) or not stem else stem


def _ordered(problems: Iterable[Problem], files: Sequence[str]) -> tuple[Problem, ...]:
    ranks = {file: rank for rank, file in enumerate(files)}
    return tuple(sorted(problems, key=lambda p: (ranks.get(p.file, len(ranks)), p.line, p.column)))


def _mend_unknown(key: str, table: type[Any]) -> str:
    if table is MeasureSpec and key == "length":  # of earlier recipes
        return 'say how long each run trains: seconds = 5, or seconds = "whole"'
    homes = [home for home, keys in _homes(Recipe) if key in keys]
    if homes:
        return f"it belongs {' or '.join(homes)}"
    known = keys_of(table).keys() | (ROOT_KEYS if table is Recipe else ())
    mend = did_you_mean(key, known) or f"known keys: {', '.join(sorted(known))}"
    if table is WorkloadSpec:
        mend += ' (arguments of a factory stand under "workload.options")'
    return mend


def _homes(table: type[Table], path: str = "") -> Iterator[tuple[str, Set[str]]]:
    """Yield every table of a recipe, in words, with its keys."""
    keys = keys_of(table)
    if path:
        yield f'under "{path}"', keys.keys()
    else:
        yield "at the top of the file", keys.keys() | ROOT_KEYS
    for name, key in keys.items():
        if key.table is not None:
            yield from _homes(key.table, join_path(path, (name,)))
