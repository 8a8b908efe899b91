"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from tfopt_core.commands import completion

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _path_option(
    flag: str, name: str, metavar: str, text: str, *, allow_dash: bool = False
) -> Decorator:
    kind = click.Path(dir_okay=False, allow_dash=allow_dash, path_type=Path)
    return click.option(flag, name, type=kind, metavar=metavar, help=text)


recipe_argument: Decorator = click.argument(
    "target", metavar="RECIPE", shell_complete=completion.recipes_and_files
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
json_option = _path_option(
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


def refuse_json(context: click.Context, json_path: Path | None) -> None:
    """Refuse the `--json` of a group before one of its commands.

    :raises click.UsageError: with what to do, if it was given.
    """
    if json_path is not None:
        raise click.UsageError(
            f"--json before {context.invoked_subcommand} is about the list; put it after "
            f"{context.invoked_subcommand} if that takes it, or leave it out"
        )
