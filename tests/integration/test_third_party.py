"""A plugin of another distribution, as pip would leave it: listed and used."""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from support.in_process import carry_out_here
from support.real_process import TINY as TINY_WORKLOAD
from support.real_process import make_project

from tfopt_core.commands.main import run
from tfopt_core.hooks.installed.discovery import registrations

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party_plugin"
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
    info = site / f"tfopt_fewer_updates-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["tfopt.plugins"]
    lines = [f"{plugin} = {place}" for plugin, place in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[tfopt.plugins]", *lines, ""]))
    return site


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
