"""`tfopt schema`: write the JSON Schema by which editors complete and check a recipe."""

from __future__ import annotations

import json
from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default=Path("-"),
    metavar="FILE",
    help="Write to this file, replacing an older one; standard output by default.",
)
@debug_option
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
