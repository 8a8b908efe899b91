"""`tfopt completion`: print the script by which a shell completes tfopt's commands."""

from __future__ import annotations

import rich_click as click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

PROGRAM = "tfopt"
VARIABLE = "_TFOPT_COMPLETE"  # where click looks for a shell's question

# Behind `plugins.` and `plugins.cache.storage=` the word goes on: no space is appended.
_BASH = """
%(complete_func)s_open() {
    %(complete_func)s "$@"
    [[ ${COMPREPLY-} == *[.=] ]] && compopt -o nospace
    return 0
}
complete -o nosort -F %(complete_func)s_open %(prog_name)s
"""
_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local type key help
    local -a answer closed open
    (( ! $+commands[%(prog_name)s] )) && return 1

    answer=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \
%(complete_var)s=zsh_complete %(prog_name)s)}")
    for type key help in ${answer}; do
        if [[ "$type" == "dir" ]]; then
            _path_files -/
        elif [[ "$type" == "file" ]]; then
            _path_files -f
        else
            [[ "$help" == "_" ]] && help="${key//:/\\\\:}" || help="$key:$help"
            [[ "$key" == *[.=] ]] && open+=("$help") || closed+=("$help")
        fi
    done
    [ -n "$closed" ] && _describe -V unsorted closed -U
    [ -n "$open" ] && _describe -V unsorted open -U -S ''
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


@add_completion_class
class Bash(BashComplete):
    """Completion for bash, which breaks words at "=" and replaces what is behind it."""

    source_template = BashComplete.source_template + _BASH
    _before = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor and the incomplete one, joined again at "="."""
        words, last = super().get_completion_args()
        joined: list[str] = []
        for word in [*words, last]:
            if word and joined and (word.startswith("=") or joined[-1].endswith("=")):
                joined[-1] += word
            else:
                joined.append(word)
        # where the cursor stands behind "=", bash's own word is "=", and what it replaces is empty
        before = joined[-1].removesuffix("" if last == "=" else last)
        self._before = before.partition("=")[2] if before.startswith("-") else before
        return joined[:-1], joined[-1]

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the type and the part of the value that replaces bash's word."""
        return f"{item.type},{item.value.removeprefix(self._before)}"


@add_completion_class
class Zsh(ZshComplete):
    """Completion for zsh."""

    source_template = _ZSH


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice([*SHELLS]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes tfopt's commands.

    It completes commands, options, recipes, plugins, and with --set keys and values. For bash, add
    to ~/.bashrc: eval "$(tfopt completion bash)". For zsh, in ~/.zshrc behind compinit: eval
    "$(tfopt completion zsh)". For fish: tfopt completion fish >
    ~/.config/fish/completions/tfopt.fish
    """
    program = context.find_root().command
    click.echo(SHELLS[shell](program, {}, PROGRAM, VARIABLE).source(), nl=False)
