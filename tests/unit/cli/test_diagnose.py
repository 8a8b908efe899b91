"""`tfopt diagnose` refuses what it cannot diagnose without importing TensorFlow."""

from __future__ import annotations

import pytest


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
def test_it_answers_without_importing_anything_heavy(light, arguments, code, said, tmp_path):
    (tmp_path / "bad.toml").write_text('[workload]\nuse = "flihgts"\n')
    (tmp_path / "empty.toml").write_text('[workload]\nuse = "flights"\n')
    ended, heavy, printed = light.run(*arguments, cwd=tmp_path)
    assert said in printed
    assert (ended, heavy) == (code, [])
