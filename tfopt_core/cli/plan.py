"""`tfopt plan`: show what a stack would do."""

from __future__ import annotations

import rich_click as click

from tfopt_core.cli.options import debug_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@debug_option
def plan(target: str, overrides: tuple[str, ...], debug: bool) -> None:
    """Show what each plugin of RECIPE would do, in order; nothing is trained.

    Settings of "auto" are resolved, conflicts are reported, and the data plan is shown before and
    after. RECIPE may be a script as you start it, "python train.py", which has no plugins.
    """
    from tfopt_core.app.plan import plan_recipe
    from tfopt_core.report.plan import render_plan
    from tfopt_core.report.style.console import make_console

    name, prepared = plan_recipe(target, overrides, debug=debug)
    make_console().print(render_plan(prepared, name))
