"""A plugin of another distribution: installed for real, listed, used; broken neighbours beside it.

The fresh environment sees the heavy dependencies of this one through a .pth file, so nothing is
downloaded.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import attrs
import pytest
from support.in_process import carry_out_here
from support.real_process import TINY as TINY_WORKLOAD
from support.real_process import make_project

from tfopt_core.commands.main import run
from tfopt_core.hooks.installed.discovery import registrations

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party_plugin"
PLUGIN, DISTRIBUTION = "fewer-updates", "tfopt-fewer-updates"
TINY = ("--set", "workload.epochs=1", "--set", "workload.options.examples=320")

NEIGHBOUR = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{distribution}"
version = "9.8.7"
[project.entry-points."tfopt.plugins"]
{plugin} = "{module}:Plugin"
[tool.hatch.build.targets.wheel]
include = ["{module}.py"]
"""


@attrs.frozen
class Environment:
    """A fresh virtual environment, and the folder that commands run in."""

    python: Path
    folder: Path

    def run(self, *arguments: object) -> str:
        """What `python ARGUMENTS` prints, both streams; it must end well."""
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
        variables = {name: value for name, value in os.environ.items() if name not in hidden}
        done = subprocess.run(
            [self.python, *map(str, arguments)],
            cwd=self.folder, env={**variables, "NO_COLOR": "1", "COLUMNS": "300"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def tfopt(self, *arguments: object) -> str:
        """What `tfopt ARGUMENTS` prints."""
        return self.run("-m", "tfopt_core", *arguments)

    def install(self, *folders: Path) -> None:
        """Build and install distributions with pip, or with uv where Python comes without pip."""
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", *folders]
        if has_ensurepip():
            self.run("-m", "pip", "--disable-pip-version-check", "install", *options)
        else:
            uv = [shutil.which("uv") or "uv", "pip", "install", "--python", self.python]
            subprocess.run([*uv, *options], check=True)


def has_ensurepip() -> bool:
    return importlib.util.find_spec("ensurepip") is not None


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with what is installed here in sight, and nothing of its own."""
    folder = tmp_path_factory.mktemp("third-party")
    pip = [] if has_ensurepip() else ["--without-pip"]
    subprocess.run([sys.executable, "-m", "venv", *pip, folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    paths = {"base": folder / "env", "platbase": folder / "env"}
    site = Path(sysconfig.get_path("purelib", vars=paths))
    # addsitedir, not the bare path: it also reads the .pth file of an editable install of tfopt
    here = sysconfig.get_path("purelib")
    (site / "of_the_tests.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    # what is built and trained leaves files, so work on a copy
    ignore = shutil.ignore_patterns("__pycache__", ".tfopt", ".pytest_cache", "build", "dist")
    shutil.copytree(EXAMPLE, folder / "example", ignore=ignore)
    return Environment(python, folder / "example")


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


def neighbour(folder: Path, plugin: str, code: str) -> Path:
    """A distribution whose plugin module is this code."""
    module = plugin.replace("-", "_")
    folder = folder / plugin
    folder.mkdir()
    text = NEIGHBOUR.format(distribution=f"tfopt-{plugin}", plugin=plugin, module=module)
    (folder / "pyproject.toml").write_text(text)
    (folder / f"{module}.py").write_text(code)
    return folder


def line_of(listing: str, plugin: str) -> str:
    """The line of `tfopt plugins` that names the plugin."""
    return next(line for line in listing.splitlines() if plugin in line.split())


@pytest.mark.slow
@pytest.mark.thorough
def test_third_partys_plugin_works_and_broken_neighbours_harm_nobody(
    fresh: Environment, tmp_path: Path
) -> None:
    raises = neighbour(tmp_path, "raises-at-import", 'raise RuntimeError("no such luck")\n')
    aborts = neighbour(tmp_path, "aborts-at-import", "import os\nos.abort()\n")
    fresh.install(fresh.folder, raises, aborts)
    listing = fresh.tfopt("plugins")
    assert f"{DISTRIBUTION} 0.1.0" in listing
    assert "Averages the gradients" in line_of(listing, PLUGIN)
    assert "cache" in listing.split()
    for name, cause in (("raises-at-import", "no such luck"), ("aborts-at-import", "SIGABRT")):
        assert cause in listing
        assert f"tfopt-{name} 9.8.7" in listing
        assert name in listing
    fresh.run("-m", "pytest", "-q", "-p", "no:cacheprovider", fresh.folder)
    # what a recipe does not name is not imported, so the abort cannot happen
    output = fresh.tfopt("train", "recipe.toml", *TINY)
    assert "one update every 4 steps" in output, output
