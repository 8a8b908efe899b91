"""`tfopt export`: write the training of a recipe as a file without tfopt."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option, recipe_argument, set_option


@click.command()
@recipe_argument
@set_option
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.py",
    help="Where to write the file; standard output by default.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(1, 2**31 - 1), default=1, metavar="N",
    help="The file's default seed; its own option --seed overrides it.",
)  # fmt: skip
@debug_option
def export(
    target: str, overrides: tuple[str, ...], output: Path | None, seed: int, debug: bool
) -> None:
    """Write RECIPE as plain TensorFlow and Keras code that trains the same without tfopt.

    Settings of "auto" are resolved first. The file names plugins that have no plain form.
    """
    from tfopt_core.app.export import export_recipe
    from tfopt_core.files import write_text
    from tfopt_core.report.code import render_program

    program = export_recipe(target, overrides, output, seed=seed, debug=debug)
    place = Path.cwd() if output is None else output.absolute().parent
    text = render_program(program, place)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
