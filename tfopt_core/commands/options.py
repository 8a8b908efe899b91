"""Options that several commands share, what a shell completes, and the options of `tfopt apply`
with the changes that they make in a recipe."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import rich_click as click
from click.shell_completion import CompletionItem

from tfopt_core.commands.output import ReportFiles
from tfopt_core.errors import InputError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Items = list[CompletionItem[str]]


def shipped_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship."""
    from tfopt_core.recipe.shipped import shipped_recipes, summary

    return [
        CompletionItem(name, help=summary(path))
        for name, path in shipped_recipes().items()
        if name.startswith(incomplete)
    ]


def recipes_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship, and what has the shell complete files."""
    files = CompletionItem(incomplete, type="file")
    return [files, *shipped_names(context, parameter, incomplete)]


def plugin_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the installed plugins."""
    from tfopt_core.hooks.installed.discovery import registrations

    return [CompletionItem(name) for name in registrations() if name.startswith(incomplete)]


def _path_option(
    flag: str, name: str, metavar: str, text: str, *, allow_dash: bool = False
) -> Decorator:
    kind = click.Path(dir_okay=False, allow_dash=allow_dash, path_type=Path)
    return click.option(flag, name, type=kind, metavar=metavar, help=text)


recipe_argument: Decorator = click.argument(
    "target", metavar="RECIPE", shell_complete=recipes_and_files
)
set_option: Decorator = click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE",
    help="Change the recipe for this call: plugins.cache.storage=disk, workload.epochs=3.",
)  # fmt: skip
module_option: Decorator = click.option(
    "-m", "module", is_flag=True, help="TARGET is a module, as in python -m package.train."
)
write_option = _path_option(
    "--write", "write_to", "FILE",
    "Write the recipe into this file instead of NAME.tfopt.toml.",
)  # fmt: skip
verbose_option: Decorator = click.option(
    "--verbose", "-v", is_flag=True,
    help="Print all figures, effects, warnings and advice, not only an answer of ten lines.",
)  # fmt: skip
debug_option: Decorator = click.option(
    "--debug", is_flag=True, help="Show tracebacks, and TensorFlow's messages when it starts."
)
_json_option = _path_option(
    "--json", "json_path", "FILE", "Write the result as JSON; - for standard output.",
    allow_dash=True,
)  # fmt: skip
html_option = _path_option(
    "--html", "html_path", "FILE", "Write a report with charts as one HTML file."
)
markdown_option = _path_option(
    "--markdown", "markdown_path", "FILE",
    "Write the result as Markdown; - for GitHub's job summary, else standard output.",
    allow_dash=True,
)  # fmt: skip
save_option = _path_option(
    "--save", "save_to", "MODEL.keras", "Save the trained model; it loads without tfopt."
)
project_option: Decorator = click.option(
    "--project", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Use the results in DIR instead of the current project's.",
)  # fmt: skip


def report_option(*formats: Decorator) -> Decorator:
    """Return a decorator that adds `--json` and the options of other formats.

    The command is given what they ask for as `files`, after a check that these can be written.
    """

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*arguments: Any, json_path: Path | None, **options: Any) -> Any:
            others = (options.pop(name, None) for name in ("html_path", "markdown_path"))
            report = ReportFiles(json_path, *others)
            report.check()
            return command(*arguments, files=report, **options)

        made: Callable[..., Any] = run
        for option in reversed((_json_option, *formats)):
            made = option(made)
        return made

    return decorated


def refuse_json(context: click.Context, report: ReportFiles) -> None:
    """Refuse the `--json` of a group before one of its commands.

    :raises click.UsageError: with what to do, if it was given.
    """
    if report.json_path is not None:
        raise click.UsageError(
            f"--json before {context.invoked_subcommand} is about the list; put it after "
            f"{context.invoked_subcommand} if that takes it, or leave it out"
        )


@attrs.frozen(kw_only=True)
class ApplyOptions:
    """The options of `tfopt apply`.

    :param module: whether the target is a module, and no path.
    :param script: replaces the script of the recipe.
    :param arguments: the arguments of the script, given after `--`.
    :param epochs, max_steps, fit: limits of a script.
    :param write_to: the file for the recipe of a script; None for the working directory.
    :param no_wait: end if another process measures in the project, instead of waiting for it.
    :param measure_anyway: measure a plugin of a script even if none seems to save time.
    :param seconds: how long each run trains after its start.
    :param full: train all runs to their end.
    """

    target: str
    module: bool = False
    overrides: tuple[str, ...] = ()
    script: str | None = None
    arguments: tuple[str, ...] = ()
    epochs: int | None = None
    max_steps: int | None = None
    fit: int | None = None
    write_to: Path | None = None
    measure_anyway: bool = False
    full: bool = False
    pairs: int | None = None
    seconds: float | None = None
    budget: str | None = None
    save_to: Path | None = None
    resuming: bool = False
    no_wait: bool = False
    time_limit: str | None = None
    debug: bool = False

    def workload(self) -> dict[str, Any]:
        """Return the keys of `[workload]` except the script."""
        return _given(
            args=list(self.arguments) or None, max_epochs=self.epochs, max_steps=self.max_steps,
            fit=self.fit,
        )  # fmt: skip

    def measure_asked(self) -> dict[str, Any]:
        """Return the pairs, seconds and budget that are asked for, by an option or by `--set`, by
        their keys in `[measure]`. What `--set` gives is not checked here.

        :raises InputError: for options that exclude each other.
        """
        from tfopt_core.recipe.layers import parse_overrides

        asked: dict[str, Any] = {}
        for change in parse_overrides(self.overrides, []):
            given = change.root.plain().get("measure")
            if isinstance(given, dict):
                asked |= given
        asked |= self._measure()
        return {key: asked[key] for key in ("pairs", "seconds", "budget") if key in asked}

    def _measure(self) -> dict[str, Any]:
        if self.full and self.seconds is not None:
            raise InputError("--full trains each run to its end; leave --full or --seconds out")
        seconds = "whole" if self.full else self.seconds
        return _given(pairs=self.pairs, seconds=seconds, budget=self.budget)

    def changes(self) -> list[str]:
        """Return the changes that the options make in a recipe, in the form of `--set`.

        :raises InputError: if the script does not exist, for an option that is about a script
            without a recipe, and for options that exclude each other.
        """
        if self.write_to is not None:
            raise InputError("--write is about a script without a recipe; leave it out")
        if self.measure_anyway:
            raise InputError(
                "--measure-anyway is about a script without a recipe; a recipe is always measured"
            )
        changes = [*self.overrides]
        if self.script is not None:
            path = Path(self.script)
            if not os.path.isfile(path):
                raise InputError(f'--script: there is no file "{self.script}"')
            # relative to where the user is, not to where the recipe lies
            changes.append(f"workload.script={_toml(str(path.absolute()))}")
            changes.append(f"workload.folder={_toml(str(Path.cwd()))}")
        changes += (f"workload.{key}={_toml(value)}" for key, value in self.workload().items())
        changes += (f"measure.{key}={_toml(value)}" for key, value in self._measure().items())
        return changes


def _given(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def _toml(value: Any) -> str:
    # JSON's strings, numbers and arrays are valid TOML, except characters that JSON writes as pairs
    return json.dumps(value, ensure_ascii=False)
