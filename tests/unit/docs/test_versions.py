"""The table of versions holds the range of pyproject.toml, as tools/try_versions.py writes it."""

from __future__ import annotations

import argparse
import re

import pytest
from support.pages import ROOT
from support.tools import load_tool

tool = load_tool("try_versions")
PAGE = tool.PAGE.read_text(encoding="utf-8")
JUNIT = """<testsuites><testsuite tests="10" skipped="2" failures="3" errors="1"/></testsuites>"""


def tried(**changes: object) -> object:
    """Return what a corner gave: nothing failed."""
    of_old = ("2.18.1", "3.8.0", "2.0.2", "3.12.1")
    whole = tool.Tried(of_old, tool.Counts(90, 2, 0), True, ())
    return whole._replace(**changes)


def test_the_page_has_a_row_for_the_lowest_versions_that_pyproject_allows() -> None:
    lowest = tool.lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    assert any(
        tensorflow.startswith(f"{lowest.tensorflow}.") and keras.startswith(f"{lowest.keras}.")
        for tensorflow, keras in rows
    )


def test_a_corner_is_what_pip_is_asked_for() -> None:
    assert tool.Corner.parse("2.18/newest").requirements() == ["tensorflow==2.18.*", "keras"]
    for text in ("2.18", "2.18/", "newest", "2.18/3.8/1"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected such as"):
            tool.Corner.parse(text)


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
