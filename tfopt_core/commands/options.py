"""Options that several commands share, and what a shell completes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click
from click.shell_completion import CompletionItem

from tfopt_core.commands.output import ReportFiles

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


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return what has the shell complete files."""
    return [CompletionItem(incomplete, type="file")]


def recipes_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship, and what has the shell complete files."""
    return [*files(context, parameter, incomplete), *shipped_names(context, parameter, incomplete)]


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
    "Where the recipe for a script goes, in place of NAME.tfopt.toml.",
)  # fmt: skip
verbose_option: Decorator = click.option(
    "--verbose", "-v", is_flag=True,
    help="Print all of it: figures, effects, warnings, advice; the answer in ten lines otherwise.",
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
