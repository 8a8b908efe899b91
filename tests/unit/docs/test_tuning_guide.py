"""What the guide says of a search's JSON and of its outcomes: all of them."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tfopt_core.tuning.results import BoundStep, NotTried, StackTrial, TrialOutcome, TuneResult
from tfopt_core.tuning.search import FORWARD_SHARE, SEARCH_SHARE

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "tuning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", [TuneResult, StackTrial, BoundStep, NotTried])
def test_every_field_of_the_json_is_documented(part: type) -> None:
    json_part = GUIDE.partition("## Its JSON")[2]
    words = set(re.findall(r"`(\w+)(?:\[\])?`", json_part))
    assert {field.name for field in attrs.fields(part)} <= words


def test_every_outcome_is_documented() -> None:
    assert all(outcome.value in GUIDE for outcome in TrialOutcome)


def test_the_shares_of_the_budget_are_those_of_the_search() -> None:
    assert f"{FORWARD_SHARE:.0%}" in GUIDE
    assert f"{SEARCH_SHARE:.0%}" in GUIDE
