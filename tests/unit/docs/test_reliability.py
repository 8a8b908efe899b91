"""docs/reliability.md is what the tests say, and each promise has a test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools" / "render_reliability.py"
    spec = importlib.util.spec_from_file_location("render_reliability", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_tool_renders_and_every_promise_is_held(tool: ModuleType) -> None:
    rendered = tool.render(tool.held_promises(), tool.load_promises())
    mend = "run: .venv/bin/python tools/render_reliability.py"
    assert tool.PAGE.read_text(encoding="utf-8") == rendered, mend


def test_a_promise_without_a_test_and_a_mark_without_a_promise_are_refused(
    tool: ModuleType, tmp_path: Path
) -> None:
    marked = '@pytest.mark.thorough\n@pytest.mark.promise(99, injected="x")\ndef test_a(): pass\n'
    (tmp_path / "test_it.py").write_text(marked, encoding="utf-8")
    held = tool.held_promises(tmp_path)
    assert [(test.number, test.injected, test.thorough) for test in held] == [(99, "x", True)]
    with pytest.raises(SystemExit, match=r"without a test: \[1, 2.*without a promise: \[99\]"):
        tool.render(held, tool.load_promises())


def test_a_mark_that_cannot_be_read_is_named_with_its_line(
    tool: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text("@pytest.mark.promise(9)\ndef test_a(): pass\n")
    with pytest.raises(SystemExit, match=r"test_it\.py:1: write"):
        tool.held_promises(tmp_path)
