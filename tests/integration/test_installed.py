"""What a clean clone builds installs into a fresh environment and measures there, by pip and by uv.

Each environment gets a TensorFlow of its own from the package index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = """
from importlib.metadata import files
kept = [str(file) for file in files("tfopt") if ".dist-info" not in str(file)]
print(*sorted(name for name in kept if not name.endswith(".pyc")), sep="\\n")
"""

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def run(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints, run without a trace of the checkout; fail with its output."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "KERAS_BACKEND", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that is removed at once: each environment takes some GB."""
    with tempfile.TemporaryDirectory(prefix="tfopt-installed-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def archives(folder: Path) -> dict[str, Path]:
    """The wheel and the sdist that a clean clone builds."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    run("git", "clone", "--quiet", ROOT, folder / "clone", cwd=folder)
    run(sys.executable, "-m", "hatchling", "build", "-d", folder / "dist", cwd=folder / "clone")
    [wheel] = (folder / "dist").glob("*.whl")
    [sdist] = (folder / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest, folder: Path) -> tuple[Path, list[str | Path]]:
    """A fresh environment, and the command that installs into it."""
    environment = folder / request.param
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "venv", environment, cwd=folder)
    if request.param == "pip":
        return environment, [python, "-m", "pip", "install", "--quiet"]
    tools = folder / "tools"
    run(sys.executable, "-m", "venv", tools, cwd=folder)
    run(tools / "bin" / "python", "-m", "pip", "install", "--quiet", "uv", cwd=folder)
    return environment, [tools / "bin" / "uv", "pip", "install", "--quiet", "--python", python]


def test_it_installs_without_the_checkout_and_measures(
    installer: tuple[Path, list[str | Path]], archives: dict[str, Path], tmp_path: Path
) -> None:
    environment, install = installer
    programs = environment / "bin"
    run(*install, archives["wheel"], cwd=tmp_path)
    if environment.name == "pip":  # what uv installs are the same files
        run(
            programs / "tfopt", "apply", "quickstart", "--json", "results.json",
            "--set", "workload.epochs=1", "--set", "workload.options.examples=1000", cwd=tmp_path,
        )  # fmt: skip
        results = json.loads((tmp_path / "results.json").read_text())
        assert results["recipe"] == "quickstart"
        assert len(results["runs"]) >= 8
        assert "failed" not in {run["status"] for run in results["runs"]}
    assert run(programs / "tfopt", "--version", cwd=tmp_path).startswith("tfopt ")

    of_wheel = run(programs / "python", "-c", FILES, cwd=tmp_path)
    run(*install, "--force-reinstall", "--no-deps", archives["sdist"], cwd=tmp_path)
    assert run(programs / "python", "-c", FILES, cwd=tmp_path) == of_wheel
    assert "quickstart" in run(programs / "tfopt", "recipes", cwd=tmp_path)
