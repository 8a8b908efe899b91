"""Read a recipe file and the chain of recipes that it extends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from tfopt_core.errors import Problem, did_you_mean
from tfopt_core.recipe.formats import Word
from tfopt_core.recipe.layer import Layer, read_layer
from tfopt_core.recipe.merge import merge_layers
from tfopt_core.recipe.shipped import find_recipe, folder_of, names_nearby
from tfopt_core.recipe.toml import TomlError, parse_toml, read_bytes
from tfopt_core.recipe.tree import Node, Place
from tfopt_core.recipe.values import faults_of


@attrs.frozen(eq=False)
class Chain:
    """A recipe merged with its bases.

    `files` are their names as shown in messages, the recipe first. `complete` is False if a file
    could not be read: a key that is missing elsewhere may be in it, and is no problem.
    """

    layer: Layer
    files: tuple[str, ...]
    problems: tuple[Problem, ...]
    complete: bool


def read_chain(
    path: Path, file: str, shipped: Mapping[str, Path], text: str | None = None
) -> Chain:
    """Read a recipe with everything that it extends.

    :param file: its name in messages.
    :param text: the recipe, if there is no file yet.
    """
    layers: list[Layer] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}  # real path -> name for messages
    complete = True
    extended_at: Place | None = None
    while True:
        root = _read(path, file, extended_at, problems, text)
        text = None
        if root is None:
            complete = False
            break
        seen[os.path.realpath(path)] = file
        layers.append(read_layer(root, problems))
        extends = root.table().get("extends")
        if extends is None:
            break
        extended_at = extends.place
        base = _base_of(extends, path, seen, shipped, problems)
        if base is None:
            complete = False
            break
        file = _shown(str(extends.value), base, path, file)
        path = base
    merged = layers.pop() if layers else Layer(Node({}, Place(file, 0, "")))
    while layers:
        merged = merge_layers(merged, layers.pop())
    return Chain(merged, tuple(seen.values()) or (file,), tuple(problems), complete)


def _read(
    path: Path, file: str, extended_at: Place | None, problems: list[Problem], text: str | None
) -> Node | None:
    try:
        return parse_toml(read_bytes(path) if text is None else text.encode(), file)
    except TomlError as error:
        problems.append(error.problem)
    except ValueError as cause:
        # If a base cannot be opened, the problem is at the line that names it.
        place = extended_at or Place(file, 0, "")
        problems.append(place.problem(str(cause) if not extended_at else f'"{file}": {cause}'))
    return None


def _base_of(
    extends: Node,
    path: Path,
    seen: Mapping[str, str],
    shipped: Mapping[str, Path],
    problems: list[Problem],
) -> Path | None:
    if wrong := extends.problems(faults_of(extends.plain(), Word)):
        problems += wrong
        return None
    name = str(extends.value)
    folder = folder_of(path)
    base = find_recipe(name, folder=folder, shipped=shipped)
    if base is None:
        mend = did_you_mean(name, names_nearby(folder, shipped))
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


def _shown(name: str, base: Path, path: Path, file: str) -> str:
    """Return a base's name for messages, relative to the same folder as the recipe's."""
    if base == path.parent / name:
        return os.path.join(os.path.dirname(file), name)
    return str(base)
