"""The table of versions holds the range of pyproject.toml, as tools/try_versions.py writes it."""

from __future__ import annotations

import re
import tomllib

from support.pages import ROOT
from support.tools import load_tool

tool = load_tool("try_versions")
LOWEST = tool.lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = tool.PAGE.read_text(encoding="utf-8")


def test_the_page_has_a_row_for_the_lowest_versions_that_pyproject_allows() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    assert any(
        tensorflow.startswith(f"{LOWEST['tensorflow']}.")
        and keras.startswith(f"{LOWEST['keras']}.")
        for tensorflow, keras in rows
    )


def test_every_requirement_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = (project["dependencies"], extras["report"], extras["tune"])
    assert len(LOWEST) == sum(map(len, required))
