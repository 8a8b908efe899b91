"""`tfopt export`: the lines to write by hand for each plugin of a stack."""

from __future__ import annotations

import rich_click as click

from tfopt_core.commands.options import debug_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@debug_option
def export(target: str, overrides: tuple[str, ...], debug: bool) -> None:
    """Print what to write in your own code, for each plugin of RECIPE's stack.

    Settings of "auto" are resolved first. A plugin that only tfopt can apply says so.
    """
    from tfopt_core.app.export import lines_by_hand
    from tfopt_core.report.style.vocabulary import settings_in_words

    plugins = lines_by_hand(target, overrides, debug=debug)
    if not plugins:
        click.echo("# the stack is empty: plain Keras trains it")
    for number, (stacked, lines) in enumerate(plugins):
        settings = settings_in_words(stacked.settings)
        blank = "\n" if number else ""
        click.echo(f"{blank}# {stacked.name}{f': {settings}' if settings else ''}")
        click.echo(lines or "# nothing to write by hand: only tfopt applies it")
