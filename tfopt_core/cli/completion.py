"""`tfopt completion`: print the script by which a shell completes tfopt's commands."""

from __future__ import annotations

import rich_click as click
from click.shell_completion import get_completion_class

PROGRAM = "tfopt"
VARIABLE = "_TFOPT_COMPLETE"  # where click looks for a shell's question


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
