"""What a command's exit status says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.report_results import make_comparison, make_memory

from tfopt_core.commands.apply import conduct, exit_code
from tfopt_core.commands.apply_options import ApplyOptions
from tfopt_core.commands.main import run
from tfopt_core.errors import InputError
from tfopt_core.records.verdict import MemoryVerdict, Verdict
from tfopt_core.report.style.console import make_console


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
    assert exit_code(comparison, failed, interrupted, require) == code


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
    contrasts = () if memory is None else (make_memory(verdict=MemoryVerdict(memory)),)  # type: ignore[call-arg]
    comparison = make_comparison(verdict=Verdict(verdict), memory=contrasts, objective=objective)  # type: ignore[call-arg]
    assert exit_code(comparison, verdict.endswith("fit"), False, require) == code


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
