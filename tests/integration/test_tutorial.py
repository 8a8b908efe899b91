"""The tutorial does what it says: its script and its commands, in their order."""

import shlex
from pathlib import Path

import pytest
from support.forked_command import HASTY
from support.pages import ROOT
from support.real_process import python, tfopt
from support.tools import load_tool

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

tool = load_tool("render_output")
# Whether a plugin seems to save time depends on the machine: here one is measured in any case, in
# shorter trainings. A page has nothing of that.
IN_ANY_CASE = ["--measure-anyway", "--epochs", "2", "--pairs", "4"]


def carried_out(command: str, folder: Path) -> object:
    """Return what a command of the page gives, forked from a process with TensorFlow imported."""
    words = shlex.split(command, comments=True)
    if words[0] == "tfopt":
        more = IN_ANY_CASE if words[1:] == ["apply", "train.py", "--verbose"] else []
        done = tfopt(*words[1:], *more, cwd=folder, imported=True, before=HASTY)
    elif words[0] == "python":
        done = python(*words[1:], cwd=folder)
    else:
        return tool.run_in_shell(command, folder)
    return tool.Printed(done.code, done.out, done.err)


def test_its_commands_end_as_it_says_and_print_the_parts_that_it_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    tool.rendered(page, tmp_path, carried_out)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"train.tfopt.toml", "report.html", "report.md"} <= written
