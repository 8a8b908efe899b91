"""What shells complete: commands, options, and the names of recipes and plugins."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete

from tfopt_core.commands.completion import PROGRAM, VARIABLE
from tfopt_core.commands.main import cli, run
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.recipe.shipped import shipped_recipes


def completed(*words: str) -> list[str]:
    """Return what may stand in place of the last word; a path is the shell's own to complete."""
    shell = BashComplete(cli, {}, PROGRAM, VARIABLE)
    items = shell.get_completions([*words[:-1]], words[-1])
    return ["(files)" if item.type == "file" else item.value for item in items]


def test_commands_and_options_are_completed() -> None:
    assert completed("pl") == ["plan", "plugins"]
    assert completed("plugins", "") == ["check", "new", "show"]
    assert completed("apply", "--me") == ["--measure-anyway"]
    assert completed("apply", "--require", "") == ["faster", "lighter"]
    assert completed("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("command", ["apply", "train", "launch", "plan", "diagnose"])
def test_recipes_that_ship_and_files_are_completed(command: str) -> None:
    names = [name for name in shipped_recipes() if name.startswith("m")]
    assert completed(command, "m") == ["(files)", *names]
    assert completed("init", "m") == ["(files)"]


def test_names_of_recipes_and_plugins_are_completed() -> None:
    assert completed("recipes", "copy", "qu") == ["quickstart"]
    assert completed("plugins", "show", "") == list(registrations())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out
