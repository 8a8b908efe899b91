"""`tfopt recipes`: list and copy the shipped recipes. `tfopt schema`, `tfopt completion` and `tfopt
skill`: what editors, shells and coding agents are told of tfopt."""

from __future__ import annotations

import json
import os
from pathlib import Path

import rich_click as click
from click.shell_completion import get_completion_class

from tfopt_core.commands import options as shared
from tfopt_core.commands.output import ReportFiles
from tfopt_core.errors import InputError, did_you_mean

PROGRAM = "tfopt"
VARIABLE = "_TFOPT_COMPLETE"  # where click looks for a shell's question
_PACKAGE = Path(__file__).parent.parent


@click.group(invoke_without_command=True)
@shared.report_option()
@click.pass_context
def recipes(context: click.Context, files: ReportFiles) -> None:
    """List the recipes that ship with tfopt, or copy one."""
    if context.invoked_subcommand is not None:
        shared.refuse_json(context, files)
        return
    from tfopt_core.recipe.shipped import shipped_recipes, summary
    from tfopt_core.report.listing import render_recipes

    found = [
        {"name": name, "path": str(path), "summary": summary(path)}
        for name, path in shipped_recipes().items()
    ]
    page = render_recipes({recipe["name"]: recipe["summary"] for recipe in found})
    files.show_list(page, recipes=found)


@recipes.command()
@click.argument("name", shell_complete=shared.shipped_names)
@click.argument("target", required=False, type=click.Path(path_type=Path))
@shared.debug_option
def copy(name: str, target: Path | None, debug: bool) -> None:
    """Copy the recipe NAME to TARGET (NAME.toml here by default), for editing."""
    from tfopt_core.files import write_text
    from tfopt_core.recipe.shipped import shipped_recipes

    shipped = shipped_recipes()
    if name not in shipped:
        hint = did_you_mean(name, shipped) or f"those that ship are: {', '.join(shipped)}"
        raise InputError(f'no recipe is named "{name}"; {hint}')
    path = target or Path(f"{name}.toml")
    if os.path.isdir(path):
        path /= f"{name}.toml"
    write_text(path, shipped[name].read_text(encoding="utf-8"))
    click.echo(f"{path}: change it, then run: tfopt apply {path}")


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default=Path("-"),
    metavar="FILE",
    help="Write to this file, replacing an older one; standard output by default.",
)
@shared.debug_option
def schema(output: Path, debug: bool) -> None:
    """Write the JSON Schema of recipes, with the plugins that are installed here.

    An editor uses recipe.schema.json beside a recipe whose first line is `#:schema
    ./recipe.schema.json`. Write it again after you install plugins.
    """
    from tfopt_core.files import write_text
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.hooks.installed.schema import installed_schema
    from tfopt_core.report.style.console import plain

    infos = inspect_plugins()
    for info in infos:
        if info.error is not None:
            origin = f"{info.distribution} {info.version}".strip()
            left_out = f'plugin "{info.name}" (from {origin}) is left out: {info.error}'
            click.echo(f"warning: {plain(left_out)}", err=True)
    text = json.dumps(installed_schema(infos), indent=2) + "\n"
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    write_text(output, text, replace=True)
    click.echo(f"{output}: recipes beside it begin with the line: #:schema ./{output.name}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes tfopt's commands.

    It completes commands, options, and the names of recipes and plugins. For bash, add to
    ~/.bashrc: eval "$(tfopt completion bash)". For zsh, in ~/.zshrc after compinit: eval "$(tfopt
    completion zsh)". For fish: tfopt completion fish > ~/.config/fish/completions/tfopt.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, PROGRAM, VARIABLE).source(), nl=False)


@click.command()
def skill() -> None:
    """Print how a coding agent uses tfopt: which command when, and how to read a verdict.

    For an agent that reads skills from a folder: tfopt skill > .claude/skills/tfopt/SKILL.md
    """
    # beside the package in a wheel, in the checkout otherwise
    places = (_PACKAGE / "skills", _PACKAGE.parent / "skills")
    folder = next(one for one in places if one.is_dir())
    click.echo((folder / "tfopt" / "SKILL.md").read_text(encoding="utf-8"), nl=False)
