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
JUNIT = """<testsuites><testsuite tests="10" skipped="2" failures="3" errors="1"/></testsuites>"""


def tried(**changes: object) -> object:
    """Return what a corner gave: nothing failed."""
    of_old = ("2.18.1", "3.8.0", "2.0.2", "3.12.1")
    whole = tool.Tried(of_old, tool.Counts(90, 2, 0), True, ())
    return whole._replace(**changes)


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


def test_counts_are_those_of_pytests_report() -> None:
    assert tool.read_counts(JUNIT) == tool.Counts(passed=4, skipped=2, failed=4)


@pytest.mark.parametrize(
    "changes",
    [
        {"measured": False},
        {"counts": tool.Counts(90, 0, 1)},
        {"counts": tool.Counts(0, 90, 0)},
    ],
)
def test_a_corner_fails_by_a_test_a_measurement_or_no_test(changes: dict[str, object]) -> None:
    assert tried().ok
    assert not tried(**changes).ok


def test_the_table_replaces_the_one_of_the_page_and_names_what_is_missing() -> None:
    table = tool.render([tried(missing=("this is lost: Keras 3.8 has no that",)), tried()])
    page = tool.written_into(PAGE, table)
    assert tool.written_into(page, table) == page
    assert "| 2.18.1 | 3.8.0 | 2.0.2 | 3.12.1 | 90 | 2 | 0 | measures |\n" in page
    assert "lacks:\n\n- this is lost: Keras 3.8 has no that\n" in page
    assert "has everything.\n<!-- versions: end -->" in page
    assert page.partition("<!--")[0] == PAGE.partition("<!--")[0]
