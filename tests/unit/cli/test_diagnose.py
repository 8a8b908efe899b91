"""`tfopt diagnose` refuses what it cannot diagnose without importing TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "keras", "numpy", "scipy", "ruptures", "psutil")
PROGRAM = f"""
import json, sys
from tfopt_core.cli.main import run
code = run(sys.argv[1:])
print(json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["diagnose", "--help"], 0, "--stack"),
        (["--help"], 0, "diagnose"),
        (["diagnose", "bad.toml"], 2, "bad.toml:2: workload.use:"),
        (["diagnose", "no-such-recipe"], 2, "no such file"),
        (["diagnose", "empty.toml", "--json", "no/such/folder.json"], 2, "there is no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_answers_without_importing_anything_heavy(arguments, code, said, tmp_path):
    (tmp_path / "bad.toml").write_text('[workload]\nuse = "flihgts"\n')
    (tmp_path / "empty.toml").write_text('[workload]\nuse = "flights"\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *errors, last = done.stderr.splitlines()
    assert said in "\n".join([done.stdout, *errors])
    assert json.loads(last) == [code, []]
