"""The notebook of the examples runs, and what the Python API does in it."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the docs extra is not installed")
nbclient = pytest.importorskip("nbclient", reason="the docs extra is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
FEW = 'examples = 320, prepare = "ahead" }'


def printed(cell) -> str:
    return "".join(
        output.text
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stdout"
    )


def test_the_notebook_runs_and_the_stack_is_in_effect(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
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
