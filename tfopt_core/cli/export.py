"""`tfopt export`: the training of a recipe as a file without tfopt."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option, set_option
from tfopt_core.errors import InputError


@click.command()
@click.argument("target", metavar="RECIPE")
@set_option
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.py",
    help="Where the file goes; standard output if left out.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(1, 2**31 - 1), default=1, metavar="N",
    help="The file's default seed; it takes another one by --seed.",
)  # fmt: skip
@debug_option
def export(
    target: str, overrides: tuple[str, ...], output: Path | None, seed: int, debug: bool
) -> None:
    """Write RECIPE as plain TensorFlow and Keras code that trains the same without tfopt.

    Settings of "auto" are resolved first. What has no plain form is said in the file.
    """
    import tempfile

    import attrs

    from tfopt_core.app.command_request import make_request
    from tfopt_core.export.ask import write_down
    from tfopt_core.report.code import render_program

    if output is not None:
        _check(output)
    request = make_request(target, overrides, compares=False, keeps=False, debug=debug)[0]
    with tempfile.TemporaryDirectory() as folder:
        request = attrs.evolve(request, folder=Path(folder), seed=seed)
        program = write_down(request)
    place = Path.cwd() if output is None else output.absolute().parent
    text = render_program(program, place)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f'cannot write "{output}": {error.strerror or error}') from error


def _check(output: Path) -> None:
    """Find out before anything is built that the file must not or cannot be written.

    :raises InputError: naming the file.
    """
    if not output.absolute().parent.is_dir():
        raise InputError(f'--output: there is no folder "{output.parent}"')
    if output.exists():  # it may be the workload's own
        raise InputError(f'--output: "{output}" exists already; name another file')
