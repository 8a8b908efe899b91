"""`tfopt export`: the lines of each plugin, and what it says of one that has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.real_process import make_project
from tfopt_data.prefetch import Prefetch

from tfopt_core.commands.main import run

RECIPE = """
    name = "r"
    [workload]
    factory = "w.py:build"
    [[plugins]]
    use = "xla"
    [[plugins]]
    use = "prefetch"
    buffer_size = 3
"""
Export = Callable[..., int]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    recipe = make_project(tmp_path / "project", RECIPE, w="build = None") / "recipe.toml"
    return lambda *options: run(["export", str(recipe), *options])


def test_prints_the_lines_of_each_plugin(
    export: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export() == 0
    printed = capsys.readouterr().out
    compile(printed, "printed", "exec")
    assert [line for line in printed.splitlines() if line and line[0] != "#"] == [
        "model.compile(optimizer, loss, jit_compile=True)",
        "train = train.prefetch(3)  # last, and of the validation data too",
    ]


def test_names_a_plugin_without_lines(
    export: Export, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Prefetch, "by_hand", lambda self: None)
    assert export() == 0
    assert capsys.readouterr().out.endswith(
        "\n\n# prefetch: buffer_size = 3\n# nothing to write by hand: only tfopt applies it\n"
    )


def test_an_error_of_by_hand_names_the_plugin(
    export: Export, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Prefetch, "by_hand", lambda self: 1 / 0)
    assert export() == 3
    assert 'plugin "prefetch"' in (printed := capsys.readouterr().err)
    assert "by_hand" in printed


def test_a_script_has_no_stack(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "train.py"]) == 2
    assert "tfopt export needs a recipe with its stack" in capsys.readouterr().err
