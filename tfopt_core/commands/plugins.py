"""`tfopt plugins`: list, show and check the installed plugins, and begin a new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.commands.output import ReportFiles
from tfopt_core.errors import InputError
from tfopt_core.report.style.console import make_console, plain

if TYPE_CHECKING:
    from tfopt_core.hooks.installed.inspection import PluginInfo


@click.group(invoke_without_command=True)
@shared.report_option()
@click.pass_context
def plugins(context: click.Context, files: ReportFiles) -> None:
    """List the installed plugins with a line each, show or check one, or begin a new one."""
    if context.invoked_subcommand is not None:
        shared.refuse_json(context, files)
        return
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.report.listing import render_plugins

    found = inspect_plugins()
    files.show_list(render_plugins(found), plugins=found)


@plugins.command()
@click.argument("name", shell_complete=shared.plugin_names)
@shared.report_option()
@shared.debug_option
def show(name: str, files: ReportFiles, debug: bool) -> None:
    """Show the description and the settings of the plugin NAME."""
    from tfopt_core.report.listing import render_card

    info = _described(name)
    files.show_list(render_card(info), plugins=(info,))


@plugins.command()
@click.argument("name", shell_complete=shared.plugin_names)
@click.argument(
    "target", metavar="[RECIPE]", required=False, shell_complete=shared.recipes_and_files
)
@shared.set_option
@shared.debug_option
def check(name: str, target: str | None, overrides: tuple[str, ...], debug: bool) -> int:
    """Check what the plugin NAME promises: its class, and a short training with it.

    It trains for some seconds with the plugin's default settings, on pictures that ship with tfopt,
    or as RECIPE says, whose stack must hold the plugin. Replays show whether the training is the
    same as without the plugin, and the plugin's effect is read back. Ends with status 1 if
    something is wrong.
    """
    from tfopt_core.commands.plugin_check import check_installed
    from tfopt_core.report.listing import render_doctor

    _described(name)
    with make_console(stderr=True).status(f"checking {plain(name)}, with three short trainings"):
        findings = tuple(check_installed(name, target, overrides, debug=debug))
    make_console().print(render_doctor(findings))
    return 1 if any(finding.ok is False for finding in findings) else 0


@plugins.command()
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The folder to write it into, ./tfopt-NAME by default.",
)
@shared.debug_option
def new(name: str, into: Path | None, debug: bool) -> None:
    """Write a Python package with a working plugin NAME, to be changed."""
    from tfopt_core.commands.scaffold import check_name, write_distribution
    from tfopt_core.hooks.installed.discovery import registrations

    names = check_name(name, registrations())
    folder = into or Path(names.distribution)
    for path in write_distribution(names, folder):
        click.echo(path)
    click.echo(
        f"\nChange {folder / names.package / 'plugin.py'} and its tests, its settings in "
        f"recipe.toml, its description in README.md and pyproject.toml; then in {folder}:\n"
        '  pip install -e ".[dev]"\n  python -m pytest\n'
        f"  tfopt plugins check {names.name} recipe.toml\n  tfopt apply recipe.toml"
    )


def _described(name: str) -> PluginInfo:
    """Return what an installed plugin says of itself.

    :raises InputError: if there is no such plugin, or it cannot be imported.
    """
    from tfopt_core.commands.check import check_plugins
    from tfopt_core.hooks.installed.inspection import inspect_plugins

    check_plugins([name])
    [info] = inspect_plugins([name])
    if info.error is not None:
        origin = f"{info.distribution} {info.version}".strip()
        raise InputError(f'plugin "{name}" (from {origin}) cannot be loaded: {info.error}')
    return info
