"""The root of the repository holds what belongs there, and make lists what it can do."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import tfopt_core

ROOT = Path(__file__).parents[3]
TOP_LEVEL = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
    "README.md", "SECURITY.md", "benchmarks", "changelog.d", "docs", "examples", "plugins",
    "pyproject.toml", "recipes", "skills", "tests", "tfopt_core", "tools", "workloads",
}  # fmt: skip
BUNDLED_DATA = "workloads/tfopt_workloads/data/"
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files that git tracks and that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_nothing_is_tracked_in_the_root_but_what_belongs_there(tracked: list[str]) -> None:
    assert {name.partition("/")[0] for name in tracked} <= TOP_LEVEL


def test_no_tracked_file_is_large_but_the_bundled_data(tracked: list[str]) -> None:
    large = {name for name in tracked if (ROOT / name).stat().st_size > MOST_BYTES}
    assert {name for name in large if not name.startswith(BUNDLED_DATA)} == set()


def test_every_target_of_make_is_phony_and_in_its_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", text, re.MULTILINE))
    [phony] = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    helped = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert targets == set(phony.split())
    assert set(re.findall(r"^make (\S+)", helped.stdout, re.MULTILINE)) == targets


def test_workflows_run_what_make_does() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    allowed = {".ci/run", *(f"make {target}" for target in targets)}
    workflows = [path.read_text() for path in ROOT.glob(".github/workflows/*.yml")]
    run = re.findall(r"^ +- run: (.*)$", "".join(workflows), re.MULTILINE)
    assert len(run) == len(workflows) == 3
    assert set(run) <= allowed


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    place = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{tfopt_core.__version__}"' in place.read_text(encoding="utf-8")


DEVELOPMENT = {"test", "lint", "notebook"}


@pytest.fixture
def project() -> dict[str, Any]:
    """The table of the project in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]  # type: ignore[no-any-return]


def test_the_extras_dev_and_all_install_those_for_developers_and_those_for_users(project):
    extras = project["optional-dependencies"]
    installed = {}
    for name in ("dev", "all"):
        [listed] = extras.pop(name)
        installed[name] = set(listed.removeprefix("tfopt[").removesuffix("]").split(","))
    # a report's page and the search of settings are tested too
    assert installed == {"dev": DEVELOPMENT | {"report", "tune"}, "all": set(extras) - DEVELOPMENT}


def test_the_extra_for_gpus_installs_the_tensorflow_that_tfopt_requires(project):
    [tensorflow] = [line for line in project["dependencies"] if line.startswith("tensorflow")]
    extra = tensorflow.replace("tensorflow", "tensorflow[and-cuda]")
    listed = project["optional-dependencies"]["and-cuda"]
    # TensorFlow's own floor for cuDNN is lower than what its XLA needs
    assert listed == [extra, "nvidia-cudnn-cu12>=9.24"]
