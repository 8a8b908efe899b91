"""A script that is started as a module sees what `python -m` shows it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
