"""The ten-minute plugin of CONTRIBUTING works as it is printed there."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.testing import check_plugin

TEXT = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODULE = "tfopt_data_threads"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the plugin and its test, under the names that the text gives."""
    plugin, test = blocks("python")
    (tmp_path / f"{MODULE}.py").write_text(plugin, encoding="utf-8")
    (tmp_path / "test_data_threads.py").write_text(test, encoding="utf-8")
    return tmp_path


@pytest.fixture
def plugin_class(project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class that the entry point of the text names."""
    [registered] = blocks("toml")
    entries = tomllib.loads(registered)["project"]["entry-points"]["tfopt.plugins"]
    module, _, name = entries["data-threads"].partition(":")
    monkeypatch.syspath_prepend(project)
    yield getattr(importlib.import_module(module), name)
    for module in (MODULE, "test_data_threads"):
        sys.modules.pop(module, None)


def test_a_suggestion_that_does_not_fit_its_settings_breaks_the_contract(plugin_class: Any) -> None:
    plugin_class.suggest = lambda self, diagnosis: {"threads": 0}
    with pytest.raises(PluginDefinitionError, match=r"suggest\(diagnosis\) fails.*threads"):
        check_plugin("data-threads", plugin_class)


@pytest.mark.tensorflow
def test_its_own_tests_hold(plugin_class: Any) -> None:
    module = importlib.import_module("test_data_threads")
    tests = [getattr(module, name) for name in vars(module) if name.startswith("test_")]
    assert len(tests) == 2
    for one in tests:
        one()


def test_five_points_come_first() -> None:
    opening = TEXT.partition("\n## ")[0]
    assert [line[:2] for line in opening.splitlines() if line[:1].isdigit()] == [
        "1.", "2.", "3.", "4.", "5.",
    ]  # fmt: skip
