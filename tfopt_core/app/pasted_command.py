"""Read a command as people paste it: `python train.py --lr 0.1`, `python -m package.train`."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.app.check import CheckedRecipe, check_recipe
from tfopt_core.errors import InputError, RecipeError, WorkloadError
from tfopt_core.recipe import Reading, WorkloadSpec, checks
from tfopt_core.recipe.tree import Node, Place
from tfopt_core.recipe.writing import recipe_text
from tfopt_core.training.module_place import module_file

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_INTERPRETER = re.compile(r"python(\d+(\.\d+)?)?(\.exe)?")
# What a shell would make of a character that is not quoted.
_SHELL = {
    "&": "starts several commands",
    ";": "starts several commands",
    "\n": "starts several commands",
    "|": "passes the output on",
    ">": "sends the output elsewhere",
    "<": "reads another input",
    "(": "starts a shell of its own",
    ")": "starts a shell of its own",
    "`": "runs another command",
    "$": "stands for a variable or another command",
    "*": "stands for the names of files",
    "?": "stands for the names of files",
    "{": "stands for several words",
}
# At the start of a word only.
_AT_START = {
    "~": "stands for your home folder",
    "#": "starts a comment",
}
# Those that a shell reads within double quotes too.
_WITHIN_QUOTES = frozenset("`$")
# The interpreter's options that have an equal for tfopt's own processes.
_INSTEAD = {
    "-u": "leave it out; PYTHONUNBUFFERED=1 in front does the same",
    "-W": "leave it out; PYTHONWARNINGS=... in front does the same",
    "-c": "write the code into a file, and name that",
    "-": "write the code into a file, and name that",
}


@attrs.frozen(kw_only=True)
class ScriptCommand:
    """A script as it is started: by its path, or as a module; one of both is given.

    :param environment: variables that are set in front of the command.
    """

    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = attrs.field(factory=dict)

    @property
    def label(self) -> str:
        """The script's path or the module."""
        return self.script or self.module or ""

    def workload(self, in_folder: Path | None = None) -> dict[str, Any]:
        """Return the keys of `[workload]` for a recipe in the working directory.

        :param in_folder: the working directory, for a recipe that lies elsewhere.
        """
        script = self.script
        keys = {
            "script": script if script is None or in_folder is None else str(in_folder / script),
            "module": self.module,
            "folder": None if in_folder is None else str(in_folder),
            "args": list(self.arguments) or None,
            "environment": self.environment or None,
        }
        return {key: value for key, value in keys.items() if value is not None}


def read_command(target: str) -> ScriptCommand | None:
    """Return the script of a target, None if the target is a recipe.

    A target is a command if it has several words of which one is a Python interpreter or a script,
    or if it is the path of a script.

    :raises InputError: for a command that is not one script with its arguments.
    """
    text = re.sub(r"\\\r?\n", " ", target).strip().removeprefix("$ ").strip()
    if target.endswith(".py") and (os.path.exists(target) or not re.search(r"\s", text)):
        return ScriptCommand(script=target)
    if os.path.exists(target) or not _looks_like_command(text):
        return None
    _check_no_shell(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(
            f"the command cannot be read: {str(error).lower()}; give it as "
            'tfopt apply "python train.py --lr 0.1"'
        ) from None
    if words[0] == "env" and len(words) > 1 and _ASSIGNMENT.match(words[1]):
        words = words[1:]
    assigned = list(itertools.takewhile(_ASSIGNMENT.match, words))
    command = _started(words[len(assigned) :], assigned)
    return attrs.evolve(command, environment=dict(one.split("=", 1) for one in assigned))


def refuse_command(target: str, command: str) -> None:
    """Refuse a script where a recipe with a stack is needed.

    :param command: what needs it, such as "tfopt export".
    :raises InputError: if the target is a script, or a command that starts one.
    """
    script = read_command(target)
    if script is not None:
        raise InputError(
            f"{command} needs a recipe with its stack, and {script.label} is a script; "
            f"tfopt apply {shlex.quote(target)} proposes a stack and writes the recipe"
        )


def check_command(command: ScriptCommand) -> ScriptCommand:
    """Return the command with its script's path as a recipe in the working directory has it.

    :raises InputError: if there is no such script or module, and for a variable in front of it that
        cannot be set for a script.
    """
    try:
        checks.variables(command.environment)
    except checks.Invalid as invalid:
        fault = invalid.faults[0]
        raise InputError(f"{fault.message}; {fault.mend}") from None
    if command.module is not None:
        try:
            module_file(command.module, Path.cwd())
        except WorkloadError as error:
            raise InputError(str(error)) from None
        return command
    script = command.script or ""
    if not os.path.isfile(script):
        what = "is a folder" if os.path.isdir(script) else "is not there"
        raise InputError(f'the script "{script}" {what}')
    return attrs.evolve(command, script=from_here(Path(script)))


def from_here(path: Path) -> str:
    """Return a path from the working directory, an absolute one if it lies elsewhere."""
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def check_as_recipe(command: ScriptCommand, overrides: Sequence[str]) -> CheckedRecipe:
    """Return the recipe of a command, without plugins, as if it lay in the working directory.

    :param overrides: the changes of `--set`.
    :raises InputError: as `check_command`; RecipeError for what `--set` asks for.
    """
    command = check_command(command)
    text = recipe_text(
        name=WorkloadSpec(script=command.script, module=command.module).stem, description="",
        workload=command.workload(in_folder=Path.cwd()), plugins=(), measure={},
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="tfopt-command-") as folder:
        file = Path(folder) / "command.toml"
        file.write_text(text, encoding="utf-8")
        with without_places(command.label, file):
            checked = check_recipe(file, overrides, compares=False)
    recipe = attrs.evolve(checked.recipe, path=Path.cwd() / "command.toml")
    root = Node({}, Place(command.label, 0, ""))
    reading = Reading((), recipe, checked.reading.entries, (str(recipe.path),), root)
    return attrs.evolve(checked, recipe=recipe, reading=reading)


@contextmanager
def without_places(label: str, file: Path) -> Iterator[None]:
    """Name the script, and not a place in a recipe that the user has not written.

    :raises InputError: for a RecipeError whose problems lie in that recipe.
    """
    try:
        yield
    except RecipeError as error:
        ours = [problem for problem in error.problems if problem.file == str(file)]
        if not ours:
            raise
        texts = (f"{p.message}; {p.mend}" if p.mend else p.message for p in ours)
        raise InputError(f"{label}: {'; '.join(texts)}") from error


def _looks_like_command(text: str) -> bool:
    words = text.split()
    if len(words) == 1:
        return bool(_INTERPRETER.fullmatch(_name(words[0])))
    return any(map(_starts_python, words))


def _starts_python(word: str) -> bool:
    return bool(_INTERPRETER.fullmatch(_name(word))) or _name(word).endswith(".py")


def _name(word: str) -> str:
    return word.strip("\"'").replace("\\", "/").rpartition("/")[2]


def _check_no_shell(text: str) -> None:
    """Check that nothing needs a shell: characters outside of quotes that it would act on.

    :raises InputError: naming the first such character.
    """
    quote, skip = "", False
    for place, sign in enumerate(text):
        if skip:
            skip = False
        elif sign == "\\" and quote != "'":
            skip = True
        elif sign == quote:
            quote = ""
        elif not quote and sign in "\"'":
            quote = sign
        elif (sign in _SHELL and not quote) or (quote == '"' and sign in _WITHIN_QUOTES):
            raise InputError(_no_shell(text, place, _SHELL[sign]))
        elif sign in _AT_START and not quote and (not place or text[place - 1].isspace()):
            raise InputError(_no_shell(text, place, _AT_START[sign]))


def _no_shell(text: str, place: int, meaning: str) -> str:
    sign = text[place]
    shown = {"\n": "a new line", "&": '"&&"' if text[place : place + 2] == "&&" else '"&"'}
    what = shown.get(sign, f'"{sign}"')
    mend = "quote it if it belongs to an argument, and else give the command alone"
    if moved := re.match(r"cd\s+([^&;]+?)\s*(&&|;)", text):
        mend = f"do `cd {moved[1]}` first, and give the command that follows alone"
    return f"{what} {meaning} in a shell, and no shell reads this command; {mend}"


def _started(words: list[str], assigned: list[str]) -> ScriptCommand:
    """Return the script that the words start, without an environment.

    :param assigned: the variables in front of them, as `NAME=value`, for what an error proposes.
    """
    if not words:
        raise InputError("the command sets variables and starts nothing; add python train.py")
    first, *rest = words
    if first.endswith(".py"):
        return ScriptCommand(script=first, arguments=tuple(rest))
    if not _INTERPRETER.fullmatch(_name(first)):
        place = next((n for n, word in enumerate(words) if _starts_python(word)), len(words))
        command = shlex.join([*assigned, *(words[place:] or ["python", "train.py"])])
        raise InputError(
            f'"{first}" is no Python interpreter, and tfopt starts each run by its own; if tfopt '
            f"works under it, write {shlex.join(words[:place])} tfopt apply {shlex.quote(command)}"
        )
    _check_interpreter(first)
    begin = shlex.join([*assigned, first])
    if not rest:
        raise InputError(
            f'"{first}" starts no script; quote the whole command: tfopt apply "{begin} train.py"'
        )
    option, *arguments = rest
    if option.startswith("-m"):
        named = [option[2:], *arguments] if option != "-m" else arguments
        if not named:
            raise InputError(f'"{first} -m" names no module; add one: {begin} -m package.train')
        return ScriptCommand(module=named[0], arguments=tuple(named[1:]))
    if option.startswith("-"):
        mend = _INSTEAD.get(option) or _INSTEAD.get(option[:2], "leave it out")
        raise InputError(
            f'"{option}" is an option of the interpreter, and tfopt starts each run by its own; '
            f"{mend}"
        )
    return ScriptCommand(script=option, arguments=tuple(arguments))


def _check_interpreter(word: str) -> None:
    """Check that a command starts the interpreter in which tfopt runs.

    :raises InputError: for another one.
    """
    version = _INTERPRETER.fullmatch(_name(word))
    assert version is not None
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    same = (version[1] or own) in (own, str(sys.version_info.major))
    if "/" in word or "\\" in word:
        # a virtual environment's interpreter is a link: its folder tells which one it is
        folders = {os.path.realpath(os.path.dirname(path)) for path in (word, sys.executable)}
        same = same and len(folders) == 1
    if not same:
        raise InputError(
            f'"{word}" is another interpreter than the one of tfopt ({sys.executable}, Python '
            f"{own}); install tfopt there, or write python"
        )
