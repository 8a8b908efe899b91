"""The recipes that come with tfopt, and what a recipe's name or path leads to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped_recipes() -> dict[str, Path]:
    """The shipped recipes by name, in alphabetical order.

    A wheel holds them beside this module; a source checkout, and so an editable install, has
    them in `recipes/` beside the package `tfopt_core`.
    """
    folder = _PACKAGE / "shipped"
    if not folder.is_dir():
        folder = _PACKAGE.parent.parent / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_recipe(
    target: str, *, folder: Path | None = None, shipped: Mapping[str, Path] | None = None
) -> Path | None:
    """The recipe that a file's path or a shipped recipe's name means; None if neither exists.

    An existing file wins over a shipped recipe. `folder` is where a relative path starts, the
    working directory if not given; `shipped` stands in for the shipped recipes.
    """
    path = Path(target) if folder is None else folder / target
    # A folder named like a shipped recipe hides it not; a pipe, as bash makes of <(...), is read.
    if _exists(path) and not path.is_dir():
        return path
    return (shipped_recipes() if shipped is None else shipped).get(target)


def names_nearby(folder: Path, shipped: Mapping[str, Path] | None = None) -> list[str]:
    """What a target may have meant: the shipped names and the TOML files of a folder."""
    known = shipped_recipes() if shipped is None else shipped
    try:
        files = [path.name for path in folder.glob("*.toml")]
    except OSError:
        files = []
    return [*known, *files]


def summary(path: Path) -> str:
    """The first comment of a recipe, which says when to use it; empty if it has none.

    Lines such as `#:schema ./recipe.schema.json` speak to editors and are passed over. Raises
    OSError if the file cannot be read.
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


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False
