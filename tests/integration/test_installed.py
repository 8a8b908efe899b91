"""What a clean clone builds installs into a fresh environment and measures there, by pip and by uv.

The environment gets a TensorFlow of its own from the package index.
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


@pytest.fixture(scope="module")
def programs(folder: Path) -> Path:
    """The programs of a fresh environment with nothing but pip and uv."""
    run(sys.executable, "-m", "venv", folder / "environment", cwd=folder)
    programs = folder / "environment" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "uv", cwd=folder)
    return programs


def test_pip_and_uv_install_the_same_without_the_checkout_and_it_measures(
    programs: Path, archives: dict[str, Path], tmp_path: Path
) -> None:
    """One environment, since what tfopt needs is large: pip downloads it, and uv resolves it."""
    python = programs / "python"
    # without compiling what is never imported
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile"]
    run(*pip, archives["wheel"], cwd=tmp_path)
    assert run(programs / "tfopt", "--version", cwd=tmp_path).startswith("tfopt ")
    run(
        programs / "tfopt", "apply", "quickstart", "--json", "results.json",
        "--set", "workload.epochs=1", "--set", "workload.options.examples=320",
        "--set", "workload.options.classes=2", cwd=tmp_path,  # fewer validation data
    )  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["recipe"] == "quickstart"
    assert len(results["runs"]) >= 8
    assert "failed" not in {run["status"] for run in results["runs"]}

    of_wheel = run(python, "-c", FILES, cwd=tmp_path)
    uv = [programs / "uv", "pip", "install", "--quiet"]
    run(programs / "uv", "venv", "--quiet", "--python", python, tmp_path / "bare", cwd=tmp_path)
    run(*uv, "--dry-run", "--python", tmp_path / "bare" / "bin" / "python", archives["wheel"],
        cwd=tmp_path)  # fmt: skip
    again = [
        ([*pip, "--force-reinstall", "--no-deps"], "sdist"),
        ([*uv, "--python", python, "--reinstall-package", "tfopt"], "wheel"),
        ([*uv, "--python", python, "--reinstall-package", "tfopt"], "sdist"),
    ]
    for install, archive in again:
        run(*install, archives[archive], cwd=tmp_path)
        assert run(python, "-c", FILES, cwd=tmp_path) == of_wheel, (install, archive)
        assert "quickstart" in run(programs / "tfopt", "recipes", cwd=tmp_path)
