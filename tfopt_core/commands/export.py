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
    from tfopt_core.commands.check import refuse_script
    from tfopt_core.commands.request import temporary_request
    from tfopt_core.hooks.card import guarded
    from tfopt_core.report.style.vocabulary import settings_in_words

    refuse_script(target, "tfopt export")
    with temporary_request(target, overrides, debug=debug) as request:
        request = request.observed()
        if any("auto" in one.settings.values() for one in request.plugins):
            from tfopt_core.trials.processes import prepare
            from tfopt_core.workers.spawn import SpawnRunner

            _, request = prepare(request, SpawnRunner())
        lines = [guarded(one.name, "by_hand", one.plugin.by_hand) for one in request.plugins]
    if not lines:
        click.echo("# the stack is empty: plain Keras trains it")
    for number, (stacked, text) in enumerate(zip(request.plugins, lines, strict=True)):
        settings = settings_in_words(stacked.settings)
        blank = "\n" if number else ""
        click.echo(f"{blank}# {stacked.name}{f': {settings}' if settings else ''}")
        click.echo(text or "# nothing to write by hand: only tfopt applies it")
