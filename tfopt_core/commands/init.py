"""`tfopt init`: look at a script or a factory, and write the recipe that is worth measuring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from tfopt_core.commands import completion
from tfopt_core.commands.options import debug_option, module_option, set_option, write_option


@click.command()
@click.argument("target", metavar="TARGET", shell_complete=completion.files)
@click.argument("arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED)
@module_option
@set_option
@write_option
@debug_option
def init(**options: Any) -> None:
    """Write a recipe for TARGET: a script (train.py), or a factory (module:callable, or
    file.py:callable).

    It is the first look of `tfopt apply train.py`, without measuring: TARGET is trained for some
    seconds, and each plugin that is proposed is tried. Plugins that are not exact stand in the
    recipe as comments. Arguments after -- are the script's own. If no plugin seems to save time,
    it prints what bounds a step, and writes nothing.
    """
    from tfopt_core.commands.apply_options import ApplyOptions
    from tfopt_core.commands.first_contact import look_alone
    from tfopt_core.diagnosis.draft import NothingToMeasure
    from tfopt_core.report.first_contact import render_nothing
    from tfopt_core.report.style.console import make_console

    found = look_alone(ApplyOptions(**options), make_console(stderr=True))
    if isinstance(found, NothingToMeasure):
        make_console().print(render_nothing(found))
        return
    draft, path = found
    before = "" if draft.stack else "take a # off in it, then "
    shown = path.name if path.parent == Path.cwd() else path
    click.echo(f"to measure it: {before}tfopt apply {shown}")
