"""The table of versions holds the range of pyproject.toml, as tools/try_versions.py writes it."""

from __future__ import annotations

import argparse
import re
import tomllib

import pytest
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


def test_a_corner_is_what_pip_is_asked_for() -> None:
    assert tool.Corner.parse("2.18/newest").requirements(LOWEST) == ["tensorflow==2.18.*", "keras"]
    for text in ("2.18", "2.18/", "newest", "2.18/3.8/1"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected such as"):
            tool.Corner.parse(text)


def test_the_oldest_corner_has_the_lowest_version_of_every_requirement() -> None:
    lowest = tool.lower_bounds("""
        [project]
        dependencies = ["tensorflow>=2.18,<2.22", "keras>=3.9", "rich-click>=1.8.6"]
        optional-dependencies = { report = ["jinja2>=3.1"], tune = ["optuna>=4.3,<6"] }
    """)
    oldest, newer = tool.Corner("2.18", "3.9"), tool.Corner("2.19", "3.9")
    assert oldest.requirements(lowest) == [
        "tensorflow==2.18.*", "keras==3.9.*", "rich-click==1.8.6", "jinja2==3.1", "optuna==4.3",
    ]  # fmt: skip
    assert newer.requirements(lowest) == ["tensorflow==2.19.*", "keras==3.9.*"]


def test_every_requirement_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = (project["dependencies"], extras["report"], extras["tune"])
    assert len(LOWEST) == sum(map(len, required))
