"""`tfopt plan`: show what a stack would do."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.commands.options import debug_option, json_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@json_option
@debug_option
def plan(target: str, overrides: tuple[str, ...], json_path: Path | None, debug: bool) -> None:
    """Show what each plugin of RECIPE would do, in order; nothing is trained.

    Settings of "auto" are resolved, conflicts are reported, and the data plan is shown before and
    after. RECIPE may be a script, train.py, which has no plugins.
    """
    from tfopt_core.app.plan import plan_recipe
    from tfopt_core.commands.output import show_list
    from tfopt_core.report.plan import render_plan

    name, prepared = plan_recipe(target, overrides, json_path=json_path, debug=debug)
    show_list(render_plan(prepared, name), json_path, recipe=name, plan=prepared)
