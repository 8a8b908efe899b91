"""Find recipes: by path, or by the name of one that ships with tfopt."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped_recipes() -> dict[str, Path]:
    """Return the paths of the shipped recipes by name, in alphabetical order.

    They are beside this module in a wheel, and in `recipes/` beside `tfopt_core` in a source
    checkout or editable install.
    """
    folder = _PACKAGE / "shipped"
    if not folder.is_dir():
        folder = _PACKAGE.parent.parent / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_recipe(target: str, *, folder: Path | None = None) -> Path | None:
    """Return the recipe with this path or shipped name, None if there is none.

    A file takes precedence over a shipped recipe. Relative paths start from `folder`, by default
    the working directory.
    """
    path = Path(target) if folder is None else folder / target
    # A folder does not hide a shipped recipe of its name; a pipe, such as bash's <(...), is read.
    if os.path.exists(path) and not os.path.isdir(path):
        return path
    return shipped_recipes().get(target)


def folder_of(path: Path) -> Path:
    """Return the folder that the relative paths of a recipe start from.

    A pipe that is named by its descriptor has none: it is the working directory.
    """
    return Path.cwd() if is_stream(path) else path.parent


def is_stream(path: Path) -> bool:
    """Return whether a path names a descriptor of this process (`/dev/stdin`, bash's <(...))."""
    parts = path.parts[:3]
    return parts in (("/", "dev", "fd"), ("/", "dev", "stdin")) or parts[:2] == ("/", "proc")


def names_nearby(folder: Path) -> list[str]:
    """Return candidates for a "did you mean": shipped names and the TOML files of a folder."""
    try:
        files = [path.name for path in folder.glob("*.toml") if os.path.exists(path)]
    except OSError:
        files = []
    return [*shipped_recipes(), *files]


def summary(path: Path) -> str:
    """Return the first comment of a recipe, which says when to use it; empty if it has none.

    Lines for editors, such as `#:schema ./recipe.schema.json`, are skipped. Raises OSError if the
    file cannot be read.
    """
    lines: list[str] = []
    for line in path.read_text("utf-8-sig", errors="replace").splitlines():
        stripped = line.strip()
        if stripped.startswith("#:"):
            continue
        if stripped.startswith("#"):
            lines.append(stripped.lstrip("#").strip())
        elif stripped or lines:
            break
    return " ".join(line for line in lines if line)
