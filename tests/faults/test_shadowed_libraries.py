"""A file in the working directory, or beside a workload, takes no library's place."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from support.real_process import TFOPT, make_project, run, tfopt_anew

from tfopt_core.workers.child import LIBRARIES

ROOT = Path(__file__).parents[2]

EXECUTED = "was-executed.txt"
DECOY = f"""
import pathlib
with open({{folder!r}} + "/{EXECUTED}", "a") as executed:
    executed.write(__name__ + " ")
raise SystemExit(f"{{{{__name__}}}} was executed")
"""

# One that a factory or script imports, as it may with plain Python.
HELPER = "import pathlib\nSLOPE = 2.0\npathlib.Path(__file__).with_suffix('.imported').touch()\n"
FACTORY = """
    import keras
    import numpy as np
    from tfopt_core import Workload
    from my_module import SLOPE

    def build():
        x = np.arange(80, dtype="float32").reshape(40, 2) / 80
        def build_model():
            return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        return Workload(train=(x, SLOPE * x[:, :1]), validation=(x, SLOPE * x[:, :1]),
                        build_model=build_model, optimizer="sgd", loss="mse")
"""
RECIPE = """
    name = "tiny"
    [workload]
    factory = "tiny:build"
    epochs = 2
    batch_size = 16
    [[plugins]]
    use = "prefetch"
    [measure]
    pairs = 4
    attribution = "off"
"""


def put_decoys(folder: Path) -> Path:
    """Files with the names of all libraries that tfopt uses."""
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES:
        (folder / f"{name}.py").write_text(DECOY.format(folder=str(folder)), encoding="utf-8")
    return folder


def executed(*folders: Path) -> list[str]:
    return [(folder / EXECUTED).read_text() for folder in folders if (folder / EXECUTED).exists()]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        [TFOPT, "plugins"],
        [TFOPT, "schema"],
        [TFOPT, "recipes", "copy", "quickstart"],
        [sys.executable, "-m", "tfopt_core", "plugins", "show", "cache"],
        [sys.executable, "-m", "tfopt_core", "runs"],
    ],
    ids=lambda command: " ".join(Path(part).name for part in command),
)
def test_a_command_executes_no_file_of_the_working_directory(command, tmp_path):
    folder = put_decoys(tmp_path)
    done = run(command, cwd=folder)
    assert executed(folder) == []
    assert done.code == 0, done.err


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.tensorflow
def test_runs_import_the_modules_beside_a_factory_and_no_library_from_there(tmp_path):
    project = put_decoys(
        make_project(
            tmp_path / "project",
            RECIPE,
            tiny=FACTORY, my_module=HELPER,
        )
    )  # fmt: skip
    here = put_decoys(tmp_path / "here")
    done = tfopt_anew("apply", project / "recipe.toml", cwd=here)
    assert executed(project, here) == []
    assert done.code == 0, done.err
    assert (project / "my_module.imported").exists()
    assert not (here / "my_module.imported").exists()


def test_every_child_is_started_without_the_working_directory_on_its_import_path():
    started = re.compile(r"sys\.executable,\s*(\"[^\"]*\")")
    found = {
        path: match[1]
        for folder in ("tfopt_core", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for match in started.finditer(path.read_text(encoding="utf-8"))
    }
    assert len(found) >= 5
    assert all(option in ('"-P"', '"-I"') for option in found.values()), found


def test_every_distribution_that_tfopt_requires_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {re.split(r"[<>=]", line)[0] for line in project["dependencies"]}
    modules = {
        module
        for module, distributions in packages_distributions().items()
        if required & set(distributions) and not module.startswith("_")
    }
    assert modules <= LIBRARIES
