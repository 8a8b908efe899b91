"""What the guide says of diagnoses names every field and every kind of finding."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from tfopt_core.hooks import diagnosis
from tfopt_core.plugins import Diagnosis

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide"


def words(page: str) -> set[str]:
    return set(re.findall(r"`([\w-]+)", (GUIDE / page).read_text(encoding="utf-8")))


def test_everything_that_a_plugin_may_read_is_documented() -> None:
    fields = {field.name for field in attrs.fields(Diagnosis)}
    assert fields | {"bound", "found"} <= words("diagnosing.md")


def test_every_kind_of_finding_is_documented() -> None:
    made = set()
    for path in (ROOT / "tfopt_core").rglob("*.py"):
        made |= set(re.findall(r'kind="([a-z-]+-[a-z-]+)"', path.read_text(encoding="utf-8")))
    assert len(made) > 10
    assert made <= words("diagnosing.md")
    assert made <= set(re.findall(r'"([a-z-]+)"', diagnosis.Finding.__doc__ or ""))
