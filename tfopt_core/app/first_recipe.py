"""Compose the recipe that `tfopt init` writes: its workload, and its text with comments."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.app.check import check_recipe
from tfopt_core.app.pasted_command import check_command, read_command
from tfopt_core.errors import InputError, RecipeError, did_you_mean
from tfopt_core.recipe import WorkloadSpec
from tfopt_core.recipe.commented import commented_recipe
from tfopt_core.recipe.schema import SCHEMA_FILE
from tfopt_core.recipe.writing import PlannedPlugin
from tfopt_core.training.factory import missing_workload

_TARGET = re.compile(r"\s*([^<>=\s]+)\s*([<>])=\s*(\S+)\s*")


@attrs.frozen
class Subject:
    """The workload: its key in the recipe ("script", "module", "factory", "use"), its value."""

    key: str
    value: str
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def stem(self) -> str:
        """The name of its files and results."""
        place = self.value.rpartition(":")[0] if self.key == "factory" else self.value
        if place.endswith(".py"):
            return Path(place).stem
        return place.rpartition(".")[2]

    def table(self, folder: Path) -> dict[str, Any]:
        """Return the `[workload]` table of a recipe in this folder, from which its paths start."""
        table: dict[str, Any] = {self.key: self.value}
        place, colon, name = self.value.rpartition(":")
        if self.key in ("script", "module"):
            if self.key == "script":
                table["script"] = _seen_from(folder, self.value)
            table["environment"] = dict(self.environment) or None
            table["args"] = list(self.args) or None
            # a script opens files relative to where it runs: here, as the user runs it
            table["folder"] = _seen_from(folder, ".") if folder.resolve() != Path.cwd() else None
        elif self.key == "factory" and place.endswith(".py"):
            table["factory"] = f"{_seen_from(folder, place)}{colon}{name}"
        return table


def find_subject(target: str, args: str | None = None) -> Subject:
    """Return the workload of a script's path or command, a factory's place or a workload's name.

    :param args: the arguments of a script, quoted as in a shell.
    :raises InputError: if there is no such workload, or arguments are given without a script.
    """
    if target.endswith(".py"):
        path = Path(target)
        if not os.path.isfile(path):
            nearby = [file.name for file in path.parent.glob("*.py")]
            hint = did_you_mean(path.name, nearby) or "give the path of a Python file"
            raise InputError(f'there is no script "{target}"; {hint}')
        return Subject("script", target, _split(args or ""))
    command = read_command(target)
    if command is not None:
        if args is not None and command.arguments:
            raise InputError("the script has arguments in the command and in --args; give one")
        command = check_command(command)
        key = "script" if command.script else "module"
        arguments = command.arguments or _split(args or "")
        return Subject(key, command.label, arguments, command.environment)
    if args:
        raise InputError("--args are the arguments of a script; give a factory [workload.options]")
    if ":" in target:
        subject, spec = Subject("factory", target), WorkloadSpec(factory=target)
    else:
        subject, spec = Subject("use", target), WorkloadSpec(use=target)
    missing = missing_workload(spec, Path.cwd())
    if missing is not None:
        if subject.key == "use":
            missing += "; a script ends in .py, and a factory is module:callable"
        raise InputError(missing)
    return subject


def parse_target(text: str) -> dict[str, Any]:
    """Return the `target` table of a text such as "val_accuracy>=0.9".

    :raises InputError: if the text is no target.
    """
    match = _TARGET.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        bound = float(match[3])
    except ValueError:
        raise InputError(
            f'--target: "{text}" is no target; write METRIC>=VALUE or METRIC<=VALUE'
        ) from None
    return {"metric": match[1], "at_least" if match[2] == ">" else "at_most": bound}


def first_text(
    subject: Subject,
    output: Path,
    plugins: Sequence[PlannedPlugin],
    *,
    name: str,
    budget: str,
    target: Mapping[str, Any] | None,
) -> str:
    """Return the recipe's text, with further keys as comments."""
    folder = output.parent
    off = "" if all(plugin.enabled for plugin in plugins) else (
        " Those that are on leave the training as it is, exactly; enabled = true adds another, and "
        "for one call --set plugins.NAME.enabled=true does."
    )  # fmt: skip
    return commented_recipe(
        name=name,
        description=f"What makes {subject.value} faster.",
        workload=subject.table(folder),
        plugins=plugins,
        measure={"budget": budget, "target": target},
        heading=[
            f"To see what makes {subject.value} faster on this machine: tfopt apply {output.name}",
        ],
        notes={"plugins": f"The stack, in this order.{off}"},
        schema=f"./{SCHEMA_FILE}" if (folder / SCHEMA_FILE).is_file() else "",
    )


def check_text(text: str, folder: Path) -> None:
    """Check the recipe as `tfopt apply` does, before it is written.

    :raises InputError: with all problems.
    """
    with beside(text, folder) as path:
        try:
            check_recipe(path)
        except RecipeError as error:
            problems = [f"{p.message}; {p.mend}" if p.mend else p.message for p in error.problems]
            raise InputError("\n".join(problems)) from None


@contextlib.contextmanager
def beside(text: str, folder: Path) -> Iterator[Path]:
    """Yield a temporary recipe in the folder from which its paths start.

    :raises InputError: if it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".tfopt-init-", suffix=".toml")
        path = Path(name)
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        cause = error.strerror or error
        raise InputError(f'nothing can be written in "{folder}": {cause}') from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _seen_from(folder: Path, place: str) -> str:
    """Return a path relative to another folder; an absolute path is unchanged."""
    if os.path.isabs(place) or folder.resolve() == Path.cwd():
        return place
    return os.path.relpath(place, folder)


def _split(args: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(args))
    except ValueError as error:
        raise InputError(f"--args: {str(error).lower()}") from None
