"""A module is found without importing it, and sees what python -m shows it."""

import json
import subprocess
import sys

import pytest

from tfopt_core.errors import WorkloadError
from tfopt_core.training.factory import module_file


@pytest.fixture
def folder(tmp_path):
    """A package that must not be imported, with a nested one, and a namespace package."""
    files = (
        "pack/__init__.py", "pack/train.py", "pack/deep/__init__.py", "pack/deep/a.py",
        "pack/runs/__init__.py", "pack/runs/__main__.py", "space/train.py", "flat.py",
    )  # fmt: skip
    for place in files:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("raise RuntimeError('imported')\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("flat", "flat.py"),
        ("pack.train", "pack/train.py"),
        ("pack.deep.a", "pack/deep/a.py"),
        ("pack.runs", "pack/runs/__main__.py"),
        ("pack.runs.__main__", "pack/runs/__main__.py"),
        ("space.train", "space/train.py"),
    ],
)
def test_a_module_is_found_as_python_finds_it(folder, name, file):
    assert module_file(name, folder) == (folder / file).resolve()
    assert "pack" not in sys.modules
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", 'there is no module "gone" in '),
        ("pack.trian", 'no module "pack.trian" in the package "pack"; did you mean "train"'),
        ("flat.train", '"flat" is a module, not a package, so it has no "flat.train"'),
        ("pack", '"pack" is a package without a __main__.py'),
        ("train.py", 'there is no module "train"'),
        ("", '"" is no module'),
        ("math", 'the module "math" has no Python file'),
    ],
)
def test_what_python_would_not_run_is_said(folder, name, message):
    with pytest.raises(WorkloadError) as error:
        module_file(name, folder)
    assert message in str(error.value)


# A script that is started as a module sees what `python -m` shows it

# Everything that a module may ask about how it was started.
MODULE = """
import json, sys
from . import neighbour
print(json.dumps([
    __name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0], neighbour.__name__,
    sys.modules["__main__"].__dict__ is globals(),
]))
"""

RUN = """
import sys
from pathlib import Path
from tfopt_core.training.factory import module_file
from tfopt_core.scripts.running import run_script
name = sys.argv[1]
end = run_script(module_file(name, Path.cwd()), ["--lr", "1"], name)
print(end.error, file=sys.stderr)
sys.exit(end.status)
"""


@pytest.mark.parametrize("name", ["pack.train", "pack"])
def test_a_module_sees_what_python_shows_it(tmp_path, name):
    (tmp_path / "pack").mkdir()
    for file, text in (
        ("__init__", ""),
        ("neighbour", ""),
        ("train", MODULE),
        ("__main__", MODULE),
    ):
        (tmp_path / "pack" / f"{file}.py").write_text(text)
    plain, ours = (
        subprocess.run([sys.executable, *start], cwd=tmp_path, capture_output=True, text=True)
        for start in (["-m", name, "--lr", "1"], ["-c", RUN, name])
    )
    assert plain.returncode == ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout) == json.loads(plain.stdout)
