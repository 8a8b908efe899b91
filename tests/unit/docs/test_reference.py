"""The committed reference pages are what the classes say."""

from __future__ import annotations

from support.pages import ROOT
from support.tools import load_tool


def test_pages_are_what_the_tool_renders() -> None:
    rendered = load_tool("render_plugin_docs").render_all()
    folder = ROOT / "docs" / "plugins"
    mend = "run: .venv/bin/python tools/render_plugin_docs.py"
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(rendered), mend
    for name, text in rendered.items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"{name} is stale; {mend}"
