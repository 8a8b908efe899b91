"""What a command's exit status says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfopt_core.app.apply import conduct
from tfopt_core.app.apply_options import ApplyOptions
from tfopt_core.cli.apply import exit_code
from tfopt_core.cli.main import run
from tfopt_core.errors import InputError
from tfopt_core.records.verdict import Verdict
from tfopt_core.report.terminal import Terminal


@pytest.mark.parametrize(
    ("verdict", "failed", "interrupted", "require", "code"),
    [
        ("faster", False, False, None, 0),
        ("slower", False, False, None, 0),
        ("inconclusive", True, False, None, 0),
        ("faster", False, False, "faster", 0),
        ("faster", True, False, "faster", 0),
        ("slower", False, False, "faster", 1),
        ("no difference", False, False, "faster", 1),
        ("not applied", False, False, "faster", 1),
        ("none", True, False, None, 3),
        ("none", True, False, "faster", 3),
        ("none", False, True, None, 130),
        ("faster", False, True, "faster", 130),
        ("none", True, True, None, 130),
    ],
)
def test_the_status_follows_from_verdict_failures_and_requirement(
    verdict, failed, interrupted, require, code
):
    assert exit_code(Verdict(verdict), failed, interrupted, require) == code


@pytest.mark.parametrize("option", [{"measure_anyway": True}, {"write_to": Path("x.toml")}])
def test_options_of_a_first_contact_are_refused_beside_a_recipe(option):
    with pytest.raises(InputError, match="is about a script without a recipe"):
        conduct(ApplyOptions(target="quickstart", **option), Terminal(quiet=True))


def test_an_unexpected_exception_is_a_bug_of_tfopt_and_shows_its_traceback(monkeypatch, capsys):
    def broken(*_, **__):
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr("tfopt_core.recipe.shipped_recipes", broken)
    assert run(["recipes"]) == 70
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "ZeroDivisionError: no such luck" in printed
    assert "this is a bug in tfopt" in printed


def test_ctrl_c_outside_a_measurement_ends_with_130(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tfopt_core.recipe.shipped_recipes", interrupted)
    assert run(["recipes"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_without_a_command_the_help_is_shown_as_bad_input(capsys):
    with pytest.raises(SystemExit) as ended:
        run([])
    assert ended.value.code == 2
    assert "Usage: tfopt" in capsys.readouterr().out
