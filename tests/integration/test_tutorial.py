"""The tutorial and the notebook of the examples do what they say, in their order."""

import shlex
from pathlib import Path

import pytest
from support.pages import ROOT, text_of
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
        done = tfopt(*words[1:], *more, cwd=folder)
    elif words[0] == "python":
        done = python(*words[1:], cwd=folder)
    else:
        return tool.run_in_shell(command, folder)
    return tool.Printed(done.code, done.out, done.err)


def test_its_commands_end_as_it_says_and_print_the_parts_that_it_shows(tmp_path: Path) -> None:
    page = text_of("docs/tutorial.md")
    tool.rendered(page, tmp_path, carried_out)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"train.tfopt.toml", "report.html", "report.md"} <= written


FEW = 'examples = 320, prepare = "ahead" }'


def printed(cell) -> str:
    return "".join(
        output.text
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stdout"
    )


def test_the_notebook_runs_and_the_stack_is_in_effect(tmp_path):
    nbformat, nbclient = (
        pytest.importorskip(name, reason="the notebook extra is not installed")
        for name in ("nbformat", "nbclient")
    )
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    notebook.metadata.kernelspec.name = "python3"
    [_, recipe, *_] = notebook.cells
    assert "examples = 4000 }" in recipe.source
    recipe.source = recipe.source.replace("examples = 4000 }", FEW)
    nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    cells = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert "chunked: applied: 16 steps a call" in cells[1]
    assert cells[2].startswith("loss ")
    assert "4 pairs" in cells[3]
