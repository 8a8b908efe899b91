"""Read a script, a module or a factory that is named in place of a recipe."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from tfopt_core.commands.check import CheckedRecipe, check_recipe
from tfopt_core.errors import InputError, RecipeError, WorkloadError, did_you_mean
from tfopt_core.recipe import Reading, WorkloadSpec
from tfopt_core.recipe.tree import Node, Place
from tfopt_core.recipe.writing import recipe_text
from tfopt_core.training.factory import missing_workload, module_file

# What begins a command at a shell: `python`, or a script with its arguments behind it.
_COMMAND = re.compile(r"(^|[\s/])python[\d.]*(\s|$)|\.py\s")


def script_of(target: str, *, module: bool = False) -> WorkloadSpec | None:
    """Return the script or module of a target, None if the target is no script's path.

    :param module: whether the target names a module, as `-m` says.
    :raises InputError: for a command, as it is typed at a shell.
    """
    if not os.path.exists(target) and _COMMAND.search(target):
        raise InputError(
            f'"{target}" is a command, and tfopt starts a script itself; write tfopt apply '
            "train.py -- ARGUMENTS, or tfopt apply -m package.train -- ARGUMENTS"
        )
    if module:
        return WorkloadSpec(module=target)
    return WorkloadSpec(script=target) if target.endswith(".py") else None


def factory_of(target: str) -> WorkloadSpec:
    """Return the factory of a target.

    :raises InputError: if the target is none, or the factory is not there.
    """
    if ":" not in target:
        raise InputError(
            f'"{target}" is no script and no factory; name train.py, or module:callable'
        )
    spec = WorkloadSpec(factory=target)
    missing = missing_workload(spec, Path.cwd())
    if missing is not None:
        raise InputError(missing)
    return spec


def refuse_script(target: str, command: str) -> None:
    """Refuse a script where a recipe with a stack is needed.

    :param command: what needs it, such as "tfopt export".
    :raises InputError: if the target is a script.
    """
    if script_of(target) is not None:
        raise InputError(
            f"{command} needs a recipe with its stack, and {target} is a script; "
            f"tfopt apply {target} proposes a stack and writes the recipe"
        )


def check_script(spec: WorkloadSpec) -> WorkloadSpec:
    """Return a script or module with its path as a recipe in the working directory has it.

    :raises InputError: if there is none.
    """
    if spec.module is not None:
        try:
            module_file(spec.module, Path.cwd())
        except WorkloadError as error:
            raise InputError(str(error)) from None
        return spec
    path = Path(spec.script or "")
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "is not there"
        beside: list[str] = []
        with suppress(OSError):  # such as a folder that may not be read
            beside = [file.name for file in path.parent.glob("*.py")]
        hint = did_you_mean(path.name, beside)
        raise InputError(f'the script "{path}" {what}{f"; {hint}" if hint else ""}')
    absolute, here = path.absolute(), Path.cwd()
    inside = absolute.is_relative_to(here)
    return attrs.evolve(spec, script=str(absolute.relative_to(here) if inside else absolute))


def for_recipe_in(folder: Path, spec: WorkloadSpec) -> WorkloadSpec:
    """Return a workload as a recipe in this folder names it; it runs in the working directory."""
    here = Path.cwd()
    if folder == here:
        return spec
    if spec.factory is not None:
        place, colon, name = spec.factory.rpartition(":")
        factory = f"{here / place}{colon}{name}" if place.endswith(".py") else spec.factory
        return attrs.evolve(spec, factory=factory)
    script = None if spec.script is None else str(here / spec.script)
    return attrs.evolve(spec, script=script, folder=str(here))


def check_as_recipe(spec: WorkloadSpec, overrides: Sequence[str]) -> CheckedRecipe:
    """Return the recipe of a script, without plugins, as if it lay in the working directory.

    :param overrides: the changes of `--set`.
    :raises InputError: as `check_script`; RecipeError for what `--set` asks for.
    """
    spec = check_script(spec)
    path = Path.cwd() / f"{spec.stem}.toml"
    text = recipe_text(
        name=spec.stem, description="", workload=spec.to_dict(), plugins=(), measure={}
    )
    with without_places(spec.label, path):
        checked = check_recipe(path, overrides, compares=False, text=text)
    root = Node({}, Place(spec.label, 0, ""))
    reading = Reading((), checked.recipe, checked.reading.entries, (str(path),), root)
    return attrs.evolve(checked, reading=reading)


@contextmanager
def without_places(label: str, path: Path) -> Iterator[None]:
    """Name the script, and not a place in a recipe that is not written yet.

    :param path: that of the recipe.
    :raises InputError: for a RecipeError whose problems lie in that recipe.
    """
    try:
        yield
    except RecipeError as error:
        ours = [problem for problem in error.problems if problem.file == str(path)]
        if not ours:
            raise
        texts = (f"{p.message}; {p.mend}" if p.mend else p.message for p in ours)
        raise InputError(f"{label}: {'; '.join(texts)}") from error
