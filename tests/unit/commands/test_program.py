"""The program: its exit codes, help, shell completion, and what `schema` and `export` print."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from support.real_process import make_project
from support.report_results import make_comparison, make_memory, make_results, make_run
from tfopt_data.prefetch import Prefetch

from tfopt_core.commands.apply import conduct, exit_code
from tfopt_core.commands.main import cli, run
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.commands.recipes import PROGRAM, VARIABLE
from tfopt_core.errors import InputError
from tfopt_core.hooks.installed import inspection
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.recipe.shipped import shipped_recipes
from tfopt_core.report.style.console import PALETTE, make_console
from tfopt_core.statistics.results import MemoryVerdict, Verdict


@pytest.mark.parametrize(
    ("verdict", "failed", "interrupted", "require", "code"),
    [
        ("faster", False, False, None, 0),
        ("inconclusive", True, False, None, 0),
        ("faster", False, False, "faster", 0),
        ("slower", False, False, "faster", 1),
        ("not applied", False, False, "faster", 1),
        ("none", True, False, None, 3),
        ("none", False, True, None, 130),
        ("faster", False, True, "faster", 130),
        ("none", True, True, None, 130),
    ],
)
def test_the_status_follows_from_verdict_failures_and_requirement(
    verdict, failed, interrupted, require, code
):
    comparison = make_comparison(verdict=Verdict(verdict))  # type: ignore[call-arg]
    runs = (make_run(0, status="failed"),) * failed
    results = make_results(comparison=comparison, runs=runs, interrupted=interrupted)
    assert exit_code(results, require) == code


@pytest.mark.parametrize("objective", ["time", "memory"])
@pytest.mark.parametrize(
    ("verdict", "memory", "require", "code"),
    [
        ("slower", "lighter", "lighter", 0),
        ("slower", "lighter", "faster", 1),
        ("faster", "heavier", "lighter", 1),
        ("faster", "quality open", "lighter", 1),
        ("faster", None, "lighter", 1),
        ("fits", None, "lighter", 0),
        ("fits", None, "faster", 1),
        ("does not fit", None, "lighter", 1),
    ],
)
def test_lighter_is_a_requirement_on_memory_alone(verdict, memory, require, code, objective):
    contrasts = () if memory is None else (make_memory(verdict=MemoryVerdict(memory)),)
    comparison = make_comparison(verdict=Verdict(verdict), memory=contrasts, objective=objective)  # type: ignore[call-arg]
    assert exit_code(make_results(comparison=comparison), require) == code


@pytest.mark.parametrize("option", [{"measure_anyway": True}, {"write_to": Path("x.toml")}])
def test_options_of_a_first_contact_are_refused_beside_a_recipe(option):
    with pytest.raises(InputError, match="is about a script without a recipe"):
        conduct(ApplyOptions(target="quickstart", **option), make_console(quiet=True))


def test_an_unexpected_exception_is_a_bug_of_tfopt_and_shows_its_traceback(monkeypatch, capsys):
    def broken(*_, **__):
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr("tfopt_core.recipe.shipped.shipped_recipes", broken)
    assert run(["recipes"]) == 70
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "ZeroDivisionError: no such luck" in printed
    assert "this is a bug in tfopt" in printed


def test_ctrl_c_outside_a_measurement_ends_with_130(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tfopt_core.recipe.shipped.shipped_recipes", interrupted)
    assert run(["recipes"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_without_a_command_the_help_is_shown_as_bad_input(capsys):
    with pytest.raises(SystemExit) as ended:
        sys.exit(run([]))  # rich-click 1.8 returns the code, 1.9 exits itself
    assert ended.value.code == 2
    assert "Usage: tfopt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "shown"), [(["--debug"], True), (["--", "--debug"], False), (["--debug", "--"], True)]
)
def test_a_traceback_is_shown_for_the_option_of_tfopt_and_not_for_that_of_a_script(
    words, shown, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run(["apply", "gone.py", *words]) == 2
    assert ("Traceback" in capsys.readouterr().err) is shown


def test_help_leaves_no_color_to_the_terminals_theme():
    unwanted = ("NO_COLOR", "COLORTERM")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    # in a process of its own: rich keeps the codes of a style for the first kind of terminal
    done = subprocess.run(
        [sys.executable, "-m", "tfopt_core", "apply", "--help"],
        env={**kept, "FORCE_COLOR": "1", "TERM": "xterm-256color"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    codes = set(re.findall(r"\x1b\[([\d;]*)m", done.stdout))
    colors = {re.sub(r"^(?:[12];)*", "", code) for code in codes} - {"", "0", "1", "2"}
    assert colors
    assert colors <= {f"38;5;{color[6:-1]}" for color in PALETTE.values()}


def completed(*words):
    """Return what may stand in place of the last word; a path is the shell's own to complete."""
    shell = BashComplete(cli, {}, PROGRAM, VARIABLE)
    items = shell.get_completions([*words[:-1]], words[-1])
    return ["(files)" if item.type == "file" else item.value for item in items]


def test_commands_and_options_are_completed():
    assert completed("pl") == ["plan", "plugins"]
    assert completed("plugins", "") == ["check", "new", "show"]
    assert completed("apply", "--me") == ["--measure-anyway"]
    assert completed("apply", "--require", "") == ["faster", "lighter"]
    assert completed("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("command", ["apply", "train", "launch", "plan", "diagnose"])
def test_recipes_that_ship_and_files_are_completed(command):
    names = [name for name in shipped_recipes() if name.startswith("m")]
    assert completed(command, "m") == ["(files)", *names]
    assert completed("init", "m") == ["(files)"]


def test_names_of_recipes_and_plugins_are_completed():
    assert completed("recipes", "copy", "qu") == ["quickstart"]
    assert completed("plugins", "show", "") == list(registrations())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell, capsys):
    assert run(["completion", shell]) == 0
    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_schema_goes_to_standard_output_or_over_an_older_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("recipe.schema.json").write_text("old")
    assert run(["schema"]) == 0
    printed = capsys.readouterr().out
    assert run(["schema", "--output", "recipe.schema.json"]) == 0
    assert Path("recipe.schema.json").read_text() == printed
    assert "#:schema ./recipe.schema.json" in capsys.readouterr().out
    assert "cache" in json.loads(printed)["definitions"]
    assert run(["schema", "--output", "none/recipe.schema.json"]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_broken_plugin_is_a_warning(monkeypatch, capsys):
    ill = PluginInfo(
        name="ill", distribution="ill-dist", version="2.5", error="RuntimeError: \x1b[31mno"
    )
    monkeypatch.setattr(inspection, "inspect_plugins", lambda: (ill,))
    assert run(["schema"]) == 0
    said = capsys.readouterr()
    assert said.err == (
        'warning: plugin "ill" (from ill-dist 2.5) is left out: RuntimeError: \\x1b[31mno\n'
    )
    assert json.loads(said.out)["definitions"] == {}


RECIPE = """
    name = "r"
    [workload]
    factory = "w.py:build"
    [[plugins]]
    use = "xla"
    [[plugins]]
    use = "prefetch"
    buffer_size = 3
"""


@pytest.fixture
def export(tmp_path):
    recipe = make_project(tmp_path / "project", RECIPE, w="build = None") / "recipe.toml"
    return lambda *options: run(["export", str(recipe), *options])


def test_prints_the_lines_of_each_plugin(export, capsys):
    assert export() == 0
    printed = capsys.readouterr().out
    compile(printed, "printed", "exec")
    assert [line for line in printed.splitlines() if line and line[0] != "#"] == [
        "model.compile(optimizer, loss, jit_compile=True)",
        "train = train.prefetch(3)  # last, and of the validation data too",
    ]


def test_names_a_plugin_without_lines(export, capsys, monkeypatch):
    monkeypatch.setattr(Prefetch, "by_hand", lambda self: None)
    assert export() == 0
    assert capsys.readouterr().out.endswith(
        "\n\n# prefetch: buffer_size = 3\n# nothing to write by hand: only tfopt applies it\n"
    )


def test_an_error_of_by_hand_names_the_plugin(export, capsys, monkeypatch):
    monkeypatch.setattr(Prefetch, "by_hand", lambda self: 1 / 0)
    assert export() == 3
    assert 'plugin "prefetch"' in (printed := capsys.readouterr().err)
    assert "by_hand" in printed


def test_a_script_has_no_stack(export, capsys):
    assert run(["export", "train.py"]) == 2
    assert "tfopt export needs a recipe with its stack" in capsys.readouterr().err
