"""The committed reference pages are what the classes say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def tool() -> ModuleType:
    path = ROOT / "tools" / "render_plugin_docs.py"
    spec = importlib.util.spec_from_file_location("render_plugin_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_what_the_tool_renders() -> None:
    rendered = tool().render_all()
    folder = ROOT / "docs" / "plugins"
    mend = "run: .venv/bin/python tools/render_plugin_docs.py"
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(rendered), mend
    for name, text in rendered.items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"{name} is stale; {mend}"
