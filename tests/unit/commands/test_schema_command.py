"""`tfopt schema`: where it writes, and what it says of plugins that cannot be described."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfopt_core.commands.main import run
from tfopt_core.hooks.installed import inspection
from tfopt_core.hooks.installed.inspection import PluginInfo


@pytest.mark.thorough
def test_the_schema_goes_to_standard_output_or_over_an_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe.schema.json").write_text("old")
    assert run(["schema"]) == 0
    printed = capsys.readouterr().out
    assert run(["schema", "--output", "recipe.schema.json"]) == 0
    assert Path("recipe.schema.json").read_text() == printed
    assert "#:schema ./recipe.schema.json" in capsys.readouterr().out
    assert "cache" in json.loads(printed)["definitions"]
    assert run(["schema", "--output", "none/recipe.schema.json"]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_broken_plugin_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ill = PluginInfo(
        name="ill", distribution="ill-dist", version="2.5", error="RuntimeError: \x1b[31mno"
    )
    monkeypatch.setattr(inspection, "inspect_plugins", lambda: (ill,))
    assert run(["schema"]) == 0
    said = capsys.readouterr()
    assert said.err == (
        'warning: plugin "ill" (from ill-dist 2.5) is left out: RuntimeError: \\x1b[31mno\n'
    )
    assert json.loads(said.out)["definitions"] == {}
