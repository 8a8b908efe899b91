"""docs/security.md names what is recorded, and SECURITY.md leads to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfopt_core.training.runtime import RECORDED

ROOT = Path(__file__).parents[3]


@pytest.mark.promise(33, injected="the allow-list of the documentation and that of the code")
def test_the_page_names_exactly_the_variables_that_are_recorded() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    recorded = text.partition("## What is recorded")[2].partition("A test holds this list")[0]
    assert tuple(re.findall(r"`([A-Z_0-9]+)`", recorded)) == RECORDED


def test_how_to_report_leads_to_the_page() -> None:
    assert "(docs/security.md)" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
