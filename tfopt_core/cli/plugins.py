"""`tfopt plugins`: list and show the installed plugins, and begin a new one."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.cli import candidates
from tfopt_core.cli.options import debug_option, json_option, refuse_json
from tfopt_core.errors import InputError, did_you_mean


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def plugins(context: click.Context, json_path: Path | None) -> None:
    """List the installed plugins with a line each, show one, or begin a new one."""
    if context.invoked_subcommand is not None:
        refuse_json(context, json_path)
        return
    from tfopt_core.cli.output import show as show_page
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.records.listings import PluginList
    from tfopt_core.report.listing import render_plugins

    found = inspect_plugins()
    show_page(render_plugins(found), PluginList(plugins=found), json_path)


@plugins.command()
@click.argument("name", shell_complete=candidates.plugins)
@json_option
@debug_option
def show(name: str, json_path: Path | None, debug: bool) -> None:
    """Show the card and the settings of the plugin NAME."""
    from tfopt_core.cli.output import show as show_page
    from tfopt_core.hooks.installed.discovery import registrations
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.records.listings import PluginList
    from tfopt_core.report.listing import render_card

    known = registrations()
    if name not in known:
        hint = did_you_mean(name, known) or "`tfopt plugins` lists those that are installed"
        raise InputError(f'no plugin is named "{name}"; {hint}')
    [info] = inspect_plugins([name])
    if info.error is not None:
        origin = f"{info.distribution} {info.version}".strip()
        raise InputError(f'plugin "{name}" (from {origin}) cannot be loaded: {info.error}')
    show_page(render_card(info), PluginList(plugins=(info,)), json_path)


@plugins.command()
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The new folder; tfopt-NAME by default.",
)
@debug_option
def new(name: str, into: Path | None, debug: bool) -> None:
    """Write a distribution with a working plugin NAME, to be changed."""
    from tfopt_core.cli.scaffold import check_name, write_distribution
    from tfopt_core.hooks.installed.discovery import registrations

    names = check_name(name, registrations())
    folder = into or Path(names.distribution)
    for path in write_distribution(names, folder):
        click.echo(path)
    click.echo(
        f"\nChange {folder / names.package / 'plugin.py'}, then in {folder}:\n"
        f'  pip install -e ".[dev]"\n  pytest\n  tfopt apply recipe.toml'
    )
