"""What shells and coding agents are told of tfopt: `tfopt completion`, with what a shell
completes, and `tfopt skill`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click
from click.shell_completion import CompletionItem, get_completion_class

PROGRAM = "tfopt"
VARIABLE = "_TFOPT_COMPLETE"  # where click looks for a shell's question
_PACKAGE = Path(__file__).parent.parent


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes tfopt's commands.

    It completes commands, options, and the names of recipes and plugins. For bash, add to
    ~/.bashrc: eval "$(tfopt completion bash)". For zsh, in ~/.zshrc behind compinit: eval "$(tfopt
    completion zsh)". For fish: tfopt completion fish > ~/.config/fish/completions/tfopt.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, PROGRAM, VARIABLE).source(), nl=False)


@click.command()
def skill() -> None:
    """Print how a coding agent uses tfopt: which command when, and how to read a verdict.

    For an agent that reads skills from a folder: tfopt skill > .claude/skills/tfopt/SKILL.md
    """
    # beside the package in a wheel, in the checkout otherwise
    places = (_PACKAGE / "skills", _PACKAGE.parent / "skills")
    folder = next(one for one in places if one.is_dir())
    click.echo((folder / "tfopt" / "SKILL.md").read_text(encoding="utf-8"), nl=False)


Items = list[CompletionItem[str]]


def recipes(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship."""
    from tfopt_core.recipe.shipped import shipped_recipes, summary

    return [
        CompletionItem(name, help=summary(path))
        for name, path in shipped_recipes().items()
        if name.startswith(incomplete)
    ]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return what has the shell complete files."""
    return [CompletionItem(incomplete, type="file")]


def recipes_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship, and what has the shell complete files."""
    return [*files(context, parameter, incomplete), *recipes(context, parameter, incomplete)]


def plugins(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the installed plugins."""
    from tfopt_core.hooks.installed.discovery import registrations

    return [CompletionItem(name) for name in registrations() if name.startswith(incomplete)]
