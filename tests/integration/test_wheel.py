"""What a wheel holds, and that it finds its recipes and data as an editable install does."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tfopt_core.recipe.shipped import shipped_recipes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of the wheel that the project builds."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.mark.thorough
def test_the_recipes_of_the_repository_ship_in_the_wheel_and_are_found_there(unpacked):
    asked = "import tfopt_core.recipe.shipped as s; print(*s.shipped_recipes().values(), sep='\\n')"
    # -P and a folder of its own: nothing of the checkout stands before the unpacked wheel
    answer = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        env={"PYTHONPATH": str(unpacked), "PATH": "/usr/bin:/bin"},
        cwd=unpacked,
        check=True,
        capture_output=True,
        text=True,
    )
    found = [Path(line) for line in answer.stdout.splitlines()]
    assert all(path.is_relative_to(unpacked) for path in found)
    here = {path.name: path.read_text() for path in (ROOT / "recipes").glob("*.toml")}
    assert {path.name: path.read_text() for path in found} == here
    assert {path.name for path in shipped_recipes().values()} == set(here)


def test_the_wheel_holds_data_types_and_licences_and_no_tests(unpacked: Path) -> None:
    assert (unpacked / "tfopt_workloads" / "data" / "fashion_mnist.npz").stat().st_size > 10**6
    for package in ("tfopt_core", "tfopt_data", "tfopt_runtime", "tfopt_workloads"):
        assert (unpacked / package / "py.typed").is_file()
    [info] = unpacked.glob("*.dist-info")
    licences = {path.name for path in info.rglob("licenses/**/*") if path.is_file()}
    assert "LICENSE" in licences
    assert len(licences) >= 3
    assert not list(unpacked.rglob("test_*.py"))
    assert "autotune = tfopt_data.autotune:Autotune" in (info / "entry_points.txt").read_text()
