"""`tfopt init`: write a recipe for a script or a factory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import rich_click as click

from tfopt_core.cli import candidates
from tfopt_core.cli.options import debug_option
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from tfopt_core.app.first_recipe import Subject
    from tfopt_core.recipe.writing import PlannedPlugin

BUDGET = "10m"


@attrs.frozen(kw_only=True)
class InitOptions:
    """The options of the command; None where an option is not given."""

    target: str | None
    args: str | None
    name: str | None
    budget: str | None
    diagnose: bool | None


@click.command()
@click.argument("target", required=False, shell_complete=candidates.scripts)
@click.option(
    "--script",
    metavar="FILE",
    help="Train this script, unchanged.",
    shell_complete=candidates.scripts,
)
@click.option("--factory", metavar="PLACE", help='Train "module:callable" or "file.py:callable".')
@click.option("--args", metavar="TEXT", help='Arguments of the script, such as "--lr 0.1".')
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NAME",
    help="Add this plugin; may be repeated.",
    shell_complete=candidates.plugins,
)
@click.option(
    "--diagnose/--no-diagnose",
    default=None,
    help="Stack the exact plugins that a diagnosis proposes, and disable the others; it trains a "
    "few steps, in under a minute.",
)
@click.option("--target", "reach", metavar="METRIC>=VALUE", help="Target of the training.")
@click.option("--budget", metavar="TIME", help=f"How long measuring may take; {BUDGET} by default.")
@click.option("--name", metavar="TEXT", help="Name of the results.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File of the recipe; NAME.tfopt.toml by default.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@debug_option
def init(
    target: str | None,
    script: str | None,
    factory: str | None,
    args: str | None,
    plugins: tuple[str, ...],
    diagnose: bool | None,
    reach: str | None,
    budget: str | None,
    name: str | None,
    output: Path | None,
    force: bool,
    debug: bool,
) -> None:
    """Write a recipe for TARGET: a script (train.py, "python -m package.train"), or a factory
    (module:callable).

    Without a TARGET, it prompts for one. The stack holds plugins that leave the training exactly as
    it is, and the file others to switch on, unless --plugin or --diagnose chooses the stack.
    """
    from tfopt_core.app import first_recipe, first_stack
    from tfopt_core.app.command_request import seconds_of
    from tfopt_core.files import write_text

    if plugins and diagnose:
        raise InputError("--plugin and --diagnose each choose the stack; give one of them")
    given = [word for word in (target, script, factory) if word is not None]
    if len(given) > 1:
        raise InputError("give one of TARGET, --script and --factory")
    _check_kind(script, factory)
    options = InitOptions(
        target=given[0] if given else None, args=args, name=name, budget=budget,
        diagnose=False if plugins else diagnose,
    )  # fmt: skip
    if options.target is None:
        options = _with_answers(options)
    assert options.target is not None
    subject = first_recipe.find_subject(options.target, options.args)
    seconds_of("--budget", options.budget or BUDGET)
    goal = None if reach is None else first_recipe.parse_target(reach)
    path = output or Path(f"{subject.stem}.tfopt.toml")
    if os.path.exists(path) and not force:
        raise InputError(f'"{path}" exists already; name another by --output, or add --force')

    def text(stack: list[PlannedPlugin]) -> str:
        return first_recipe.first_text(
            subject, path, stack, name=options.name or subject.stem,
            budget=options.budget or BUDGET, target=goal,
        )  # fmt: skip

    stack = (
        first_stack.chosen_plugins(plugins, target=goal is not None)
        if plugins
        else first_stack.safe_plugins()
    )
    if options.diagnose:
        stack = _proposed(text(stack), path.parent) or stack
    first_recipe.check_text(text(stack), path.parent)
    write_text(path, text(stack), replace=force)
    _report(path, subject, stack)


def _check_kind(script: str | None, factory: str | None) -> None:
    if script is not None and not script.endswith(".py"):
        raise InputError(f'--script: "{script}" does not end in .py')
    if factory is not None and ":" not in factory:
        raise InputError(f'--factory: "{factory}" names no callable; write "module:callable"')


def _with_answers(options: InitOptions) -> InitOptions:
    """Return the options with the user's answers for those not given.

    :raises InputError: if there is no terminal.
    """
    from tfopt_core.app.command_request import seconds_of
    from tfopt_core.app.first_recipe import find_subject

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(
            "give a script or a factory to train: tfopt init train.py, or --script FILE, or "
            "--factory MODULE:CALLABLE; --args, --plugin, --budget, --name, --output set the rest"
        )
    target = _ask("Script or factory to train (train.py, module:callable)", find_subject)
    subject = find_subject(target)
    if subject.key == "script" and options.args is None:
        args = _ask("Its arguments", lambda text: find_subject(target, text), default="")
        options = attrs.evolve(options, args=args)
    if options.budget is None:
        budget = _ask(
            "How long may measuring take", lambda text: seconds_of("--budget", text), BUDGET
        )
        options = attrs.evolve(options, budget=budget)
    if options.name is None:
        options = attrs.evolve(options, name=_ask("Name of the recipe", str, subject.stem))
    if options.diagnose is None:
        question = "Diagnose it first, to propose a stack (trains a few steps)"
        options = attrs.evolve(options, diagnose=click.confirm(question, default=False))
    return attrs.evolve(options, target=target)


def _ask(question: str, check: Callable[[str], Any], default: str | None = None) -> str:
    """Prompt until the answer passes the check. Return it."""

    def checked(text: str) -> str:
        try:
            check(text)
        except InputError as error:
            raise click.UsageError(str(error)) from error
        return text

    answer: str = click.prompt(question, default=default, value_proc=checked)
    return answer


def _proposed(text: str, folder: Path) -> list[PlannedPlugin]:
    """Return the plugins that a diagnosis proposes for the recipe; print if there are none."""
    from tfopt_core.app.diagnose import diagnose_recipe
    from tfopt_core.app.first_recipe import beside
    from tfopt_core.app.first_stack import proposed_plugins
    from tfopt_core.report.terminal import Terminal

    with beside(text, folder) as recipe:
        found = proposed_plugins(diagnose_recipe(str(recipe), (), Terminal()))
    if not any(planned.enabled for planned in found):
        click.echo("no plugin is proposed here, so the recipe gets a stack that changes nothing")
        return []
    return found


def _report(path: Path, subject: Subject, stack: list[PlannedPlugin]) -> None:
    on = [plugin.use for plugin in stack if plugin.enabled]
    off = len(stack) - len(on)
    click.echo(f"{path}: {subject.key} {subject.value} with {', '.join(on)}")
    if off:
        click.echo(f"  {off} others are in the file, to be switched on (enabled = true)")
    click.echo(f"  tfopt plan {path}     what each would do\n  tfopt apply {path}    measure it")
