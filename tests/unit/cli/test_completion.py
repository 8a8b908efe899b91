"""What shells complete: commands, options, recipes, plugins, and keys and values of `--set`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.light_process import HEAVY
from support.typed_shell import typed_shell

from tfopt_core.cli.completion import PROGRAM, VARIABLE, Bash
from tfopt_core.cli.main import cli
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.recipe import shipped_recipes


def completed(*words: str) -> list[str]:
    """Return what may stand in place of the last word."""
    shell = Bash(cli, {}, PROGRAM, VARIABLE)
    return [item.value for item in shell.get_completions([*words[:-1]], words[-1])]


def asked_by_bash(*words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return bash's replacements of the last of its words, which it breaks at "="."""
    monkeypatch.setenv("COMP_WORDS", "\n".join(["tfopt", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    answer = Bash(cli, {}, PROGRAM, VARIABLE).complete()
    return [line.partition(",")[2] for line in answer.splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert completed("pl") == ["plan", "plugins"]
    assert completed("plugins", "") == ["check", "new", "show"]
    assert completed("apply", "--me") == ["--measure-anyway"]
    assert completed("apply", "--require", "") == ["faster", "lighter"]
    assert completed("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("command", ["apply", "train", "launch", "plan", "diagnose", "export"])
def test_recipes_that_ship_and_files_are_completed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    for name in ("mine.toml", "mine.py", "mine.txt", "models/own.toml"):
        Path(name).touch()
    scripts = ["mine.py"] if command == "apply" else []
    assert completed(command, "m") == [
        "m", *scripts, "mine.toml", *(name for name in shipped_recipes() if name.startswith("m")),
    ]  # fmt: skip
    assert completed(command, "models/") == ["models/", "models/own.toml"]
    assert completed(command, "no/such/fol") == ["no/such/fol"]  # for the shell's own folders


def test_names_of_recipes_and_plugins_are_completed() -> None:
    assert completed("recipes", "copy", "qu") == ["quickstart"]
    assert completed("plugins", "show", "") == list(registrations())
    assert completed("init", "train.py", "--plugin", "xl") == ["xla"]


def test_tables_and_keys_after_set_are_completed() -> None:
    assert completed("apply", "--set", "me") == ["measure."]
    assert completed("plan", "--set", "measure.quality.to") == ["measure.quality.tolerance="]
    assert completed("plan", "--set", "plugins.cache.st") == ["plugins.cache.storage="]
    assert "extends=" not in completed("plan", "--set", "")
    assert completed("plan", "--set", "no.such.table.") == []
    assert completed("plan", "--set", "plugins.no-such-plugin.") == []
    assert completed("plan", "--set", "plugins.cache.storage.") == []


def test_plugins_after_set_are_those_of_the_recipe_where_one_is_given() -> None:
    of_recipe = ["mixed-precision", "cache", "autotune", "prefetch"]
    expected = [f"plugins.{name}." for name in of_recipe]
    assert completed("apply", "quickstart", "--set", "plugins.") == expected
    assert completed("apply", "quickstart", "--set=plugins.") == expected
    assert completed("plugins", "check", "cache", "quickstart", "--set", "plugins.") == expected
    everything = [f"plugins.{name}." for name in registrations()]
    assert completed("plugins", "check", "cache", "--set", "plugins.") == everything
    assert completed("apply", "--set", "plugins.") == everything
    assert completed("apply", "no-such-recipe", "--set", "plugins.") == everything


def test_values_after_set_are_completed_where_they_are_listed() -> None:
    key = "plugins.cache.place="
    assert completed("plan", "--set", key) == [f"{key}auto", f"{key}end"]
    assert completed("plan", "--set", "plugins.cache.enabled=f") == ["plugins.cache.enabled=false"]
    assert completed("plan", "--set", "measure.pairs=") == ["measure.pairs=auto"]
    assert completed("plan", "--set", "workload.use=weat") == ["workload.use=weather"]
    assert completed("plan", "--set", "measure.budget=") == []


def test_bash_gets_what_replaces_its_own_word(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, replaced in (
        (("plan", "--set", "plugins.cache.place", "="), ["auto", "end"]),
        (("plan", "--set", "plugins.cache.place", "=", "e"), ["end"]),
        (("plan", "--set", "=", "plugins.cache.place", "=", "e"), ["end"]),
        (("plan", "--set", "=", "plugins.cache.pl"), ["plugins.cache.place="]),
        (("apply", "--require", "=", "f"), ["faster"]),
        (("apply", "--set", "workload.epochs", "=", "3", "qui"), ["qui", "quickstart"]),
    ):
        assert asked_by_bash(*words, monkeypatch=monkeypatch) == replaced


def test_a_plugin_that_prints_or_fails_when_it_is_imported_completes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    info = tmp_path / "loud-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tfopt.plugins]\nloud = loud_plugin:Loud\n")
    (tmp_path / "loud_plugin.py").write_text('print("hello")\nraise SystemExit(3)\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert completed("plan", "--set", "plugins.lo") == ["plugins.loud."]
    assert completed("plan", "--set", "plugins.loud.") == []
    assert capfd.readouterr() == ("", "")


def test_nothing_heavy_is_imported_to_complete_a_setting() -> None:
    code = (
        "import atexit, sys\nfrom tfopt_core.cli.main import main\n"
        f"atexit.register(lambda: print([n for n in {HEAVY!r} if n in sys.modules]))\nmain()"
    )
    words = "\n".join(["tfopt", "plan", "quickstart", "--set", "plugins.cache.storage", "=", "d"])
    environment = {VARIABLE: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "6"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["plain,disk", "plain,disk-or-partial", "[]"]


SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        "bind 'set enable-bracketed-paste off'; eval \"$(tfopt completion bash)\"\n",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -Uz compinit; compinit -u -D; eval "$(tfopt completion zsh)"\n',
    ),
    "fish": (["fish", "-i"], "tfopt completion fish | source\n"),
}


@pytest.mark.parametrize("name", SHELLS)
def test_a_real_shell_completes_plugin_key_and_value(name: str, tmp_path: Path) -> None:
    command, setup = SHELLS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{name} is not installed")
    folder = Path(sys.executable).parent
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm",
        "LANG": "C.UTF-8",
    }  # fmt: skip
    with typed_shell(command, environment, tmp_path) as shell:
        shell.press(f"{setup}echo rea''dy\n")
        assert "ready\r\n" in shell.read_until("ready\r\n")
        # complete three words, write echo before the line (Ctrl-A), run it; the space behind the
        # last word is in the line that is run, not in what it prints
        shell.press("tfopt plan quickstart --set plugins.cac\tsto\tme\t\x01echo \n")
        line = "tfopt plan quickstart --set plugins.cache.storage=memory\r\n"
        assert line in shell.read_until(line)
