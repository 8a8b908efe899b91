"""docs/reliability.md is what the tests say, and each promise has a test."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from support.tools import load_tool


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("render_reliability")


@pytest.mark.thorough
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
