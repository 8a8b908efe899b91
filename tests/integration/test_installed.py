"""What a clean clone builds installs into a fresh environment and measures there, by pip and by uv.

What tfopt needs, which is large, the environment reads from that of the tests.
"""

import json
import os
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import real_process

ROOT = Path(__file__).parents[2]
FILES = """
from importlib.metadata import files
kept = [str(file) for file in files("tfopt") if ".dist-info" not in str(file)]
print(*sorted(name for name in kept if not name.endswith(".pyc")), sep="\\n")
"""
RECIPES = "import tfopt_core.recipe.shipped as s; print(*s.shipped_recipes().values(), sep='\\n')"

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def run(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints, run without a trace of the checkout; fail with its output."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "KERAS_BACKEND", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    done = real_process.run(list(command), cwd=cwd, env=clean)
    assert done.code == 0, f"{command}:\n{done.out}\n{done.err}"
    return done.out


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
    """The programs of a fresh environment with pip, uv, and all that tfopt needs, but no tfopt."""
    made = folder / "environment"
    run(sys.executable, "-m", "venv", made, cwd=folder)
    programs = made / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "uv", cwd=folder)
    [packages] = made.glob("lib/python*/site-packages")
    # the checkout stands in a file of this kind in that folder, which is not read from here
    (packages / "of_tests.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def test_the_wheel_holds_data_types_and_licences_and_no_tests(archives: dict[str, Path]) -> None:
    with zipfile.ZipFile(archives["wheel"]) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
        [points] = [name for name in sizes if name.endswith(".dist-info/entry_points.txt")]
        assert "autotune = tfopt_data.autotune:Autotune" in archive.read(points).decode()
    assert sizes["tfopt_workloads/data/fashion_mnist.npz"] > 10**6
    for package in ("tfopt_core", "tfopt_data", "tfopt_runtime", "tfopt_workloads"):
        assert f"{package}/py.typed" in sizes
    licences = {Path(name).name for name in sizes if ".dist-info/licenses/" in name}
    assert "LICENSE" in licences
    assert len(licences) >= 3
    assert not [name for name in sizes if Path(name).match("test_*.py")]


def test_pip_and_uv_install_the_same_without_the_checkout_and_it_measures(
    programs: Path, archives: dict[str, Path], tmp_path: Path
) -> None:
    python, uv = programs / "python", [programs / "uv", "pip", "install", "--quiet"]
    by_pip = [python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]
    by_uv = [*uv, "--python", python, "--reinstall-package", "tfopt", "--no-deps"]
    run(*by_pip, archives["wheel"], cwd=tmp_path)
    assert run(programs / "tfopt", "--version", cwd=tmp_path).startswith("tfopt ")
    run(python, "-m", "pip", "check", cwd=tmp_path)
    found = map(Path, run(python, "-c", RECIPES, cwd=tmp_path).splitlines())
    assert {path.name: path.read_text() for path in found} == {
        path.name: path.read_text() for path in (ROOT / "recipes").glob("*.toml")
    }
    run(
        programs / "tfopt", "apply", "quickstart", "--json", "results.json", "--pairs", "4",
        "--set", "workload.epochs=1", "--set", "workload.options.examples=320",
        "--set", "workload.options.classes=2", cwd=tmp_path,  # fewer validation data
    )  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["recipe"] == "quickstart"
    assert len(results["runs"]) >= 8
    assert "failed" not in {run["status"] for run in results["runs"]}

    of_wheel = run(python, "-c", FILES, cwd=tmp_path)
    for install, archive in ((by_pip, "sdist"), (by_uv, "wheel"), (by_uv, "sdist")):
        run(*install, archives[archive], cwd=tmp_path)
        assert run(python, "-c", FILES, cwd=tmp_path) == of_wheel, (install, archive)
        assert "quickstart" in run(programs / "tfopt", "recipes", cwd=tmp_path)
    # the index has all that it needs
    run(programs / "uv", "venv", "--quiet", "--python", python, tmp_path / "bare", cwd=tmp_path)
    run(*uv, "--dry-run", "--python", tmp_path / "bare" / "bin" / "python", archives["wheel"],
        cwd=tmp_path)  # fmt: skip
