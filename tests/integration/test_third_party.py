"""Plugins of other distributions: the example and a new scaffold are found, checked and used."""

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from support.in_process import carry_out_here
from support.real_process import TINY as TINY_WORKLOAD
from support.real_process import environment, make_distribution, make_project
from support.real_process import run as run_process

from tfopt_core.commands.main import run
from tfopt_core.commands.scaffold import (
    ENDING,
    LONGEST_NAME,
    TEMPLATES,
    ScaffoldNames,
    write_distribution,
)
from tfopt_core.hooks.installed.discovery import registrations

ROOT = Path(__file__).parents[2]

# The example, as pip would leave it

EXAMPLE = ROOT / "examples" / "third_party_plugin"
PLUGIN, DISTRIBUTION = "fewer-updates", "tfopt-fewer-updates"
ACCUMULATED = """
    [workload]
    factory = "tiny.py:build"
    epochs = 2
    batch_size = 8
    [[plugins]]
    use = "fewer-updates"
    steps = 2
"""


def installed(site: Path) -> Path:
    """The example as pip would leave it in a folder of distributions."""
    shutil.copytree(
        EXAMPLE / "tfopt_fewer_updates", site / "tfopt_fewer_updates",
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["tfopt.plugins"]
    return make_distribution(site, project["name"], points, project["version"])


@pytest.mark.tensorflow
def test_a_plugin_that_was_installed_from_elsewhere_is_listed_and_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert PLUGIN not in registrations()

    site = installed(tmp_path / "site")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))  # for the process that describes plugins
    assert run(["plugins", "show", PLUGIN]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{DISTRIBUTION} 0.1.0" in shown
    assert "Averages the gradients" in shown

    carry_out_here(monkeypatch)
    project = make_project(
        tmp_path / "project", ACCUMULATED, tiny=TINY_WORKLOAD.format(says="pass")
    )
    assert run(["train", str(project / "recipe.toml")]) == 0
    assert "one update every 2 steps" in " ".join(capsys.readouterr().out.split())
    for name in [name for name in sys.modules if name.startswith("tfopt_fewer_updates")]:
        del sys.modules[name]


# What `tfopt plugins new` writes

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
    done = run_process([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder)
    assert done.code == 0, done.out + done.err
    assert "3 passed" in done.out


@pytest.mark.parametrize("name", NAMES)
def test_ruff_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    write_distribution(ScaffoldNames(name), folder)
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = run_process([sys.executable, "-m", "ruff", *command, "."], cwd=folder)
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
    done = run_process([sys.executable, "-P", "-c", asked], cwd=tmp_path)
    assert done.code != 0  # it is not there without the wheel
    done = run_process([sys.executable, "-P", "-c", asked], cwd=tmp_path, env=env)
    assert done.code == 0, done.err
    assert json.loads(done.out) == [
        None, "tfopt-loss-watch", "Gives the input pipeline threads of its own.", "exact",
    ]  # fmt: skip
