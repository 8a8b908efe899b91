"""What `tfopt plugins new` writes passes its own tests and ruff, as it stands."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.real_process import environment, run

from tfopt_core.commands.scaffold import (
    ENDING,
    LONGEST_NAME,
    TEMPLATES,
    ScaffoldNames,
    write_distribution,
)

ROOT = Path(__file__).parents[2]

# The shortest and the longest name: lines must neither be too long nor fit where they are broken.
NAMES = ["a", "loss-watch", "x" * (LONGEST_NAME - 2) + "-y"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new distribution."""
    folder = tmp_path_factory.mktemp("scaffold") / "tfopt-loss-watch"
    write_distribution(ScaffoldNames("loss-watch"), folder)
    return folder


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_its_own_tests_pass_without_installing_it(folder: Path) -> None:
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder)
    assert done.code == 0, done.out + done.err
    assert "3 passed" in done.out


@pytest.mark.parametrize("name", NAMES)
def test_ruff_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write_distribution(ScaffoldNames(name), folder)
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = run([sys.executable, "-m", "ruff", *command, "."], cwd=folder)
        assert done.code == 0, done.out + done.err


def test_the_templates_are_part_of_tfopts_wheel() -> None:
    from hatchling.builders.wheel import WheelBuilder

    held = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    templates = [str(path.relative_to(ROOT)) for path in TEMPLATES.rglob(f"*{ENDING}")]
    assert templates
    assert held.issuperset(templates)


def test_its_wheel_registers_a_plugin_that_tfopt_finds_and_describes(folder, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    asked = (
        "import json; from tfopt_core.hooks.installed.inspection import inspect_plugins as i; "
        "[p] = i(['loss-watch']); "
        "print(json.dumps([p.error, p.distribution, p.summary, p.equivalence]))"
    )
    env = environment(PYTHONPATH=tmp_path / "site")
    done = run([sys.executable, "-P", "-c", asked], cwd=tmp_path)
    assert done.code != 0  # it is not there without the wheel
    done = run([sys.executable, "-P", "-c", asked], cwd=tmp_path, env=env)
    assert done.code == 0, done.err
    assert json.loads(done.out) == [
        None, "tfopt-loss-watch", "Gives the input pipeline threads of its own.", "exact",
    ]  # fmt: skip
