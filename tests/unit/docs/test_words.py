"""What the guides and the skill say of fields, outcomes and verdicts names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from tfopt_core.commands.main import cli
from tfopt_core.hooks import diagnosis
from tfopt_core.plugins import Diagnosis
from tfopt_core.records.results import Comparison, Results
from tfopt_core.records.verdict import Verdict
from tfopt_core.tuning.results import BoundStep, NotTried, StackTrial, TrialOutcome, TuneResult
from tfopt_core.tuning.search import FORWARD_SHARE, SEARCH_SHARE

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


TUNING = (GUIDE / "tuning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", [TuneResult, StackTrial, BoundStep, NotTried])
def test_every_field_of_the_json_is_documented(part: type) -> None:
    json_part = TUNING.partition("## Its JSON")[2]
    words = set(re.findall(r"`(\w+)(?:\[\])?`", json_part))
    assert {field.name for field in attrs.fields(part)} <= words


def test_every_outcome_is_documented() -> None:
    assert all(outcome.value in TUNING for outcome in TrialOutcome)


def test_the_shares_of_the_budget_are_those_of_the_search() -> None:
    assert f"{FORWARD_SHARE:.0%}" in TUNING
    assert f"{SEARCH_SHARE:.0%}" in TUNING


TEXT = CliRunner().invoke(cli, ["skill"]).output


def test_it_begins_as_agents_read_skills() -> None:
    assert re.match(r"---\nname: tfopt\ndescription: .+\n---\n", TEXT)


def test_every_command_exists() -> None:
    named = set(re.findall(r"\btfopt ([a-z]+)\b(?! is)", TEXT)) - {"trains"}
    assert {"apply", "diagnose", "train", "export", "compare", "plan"} <= named
    assert named <= set(cli.commands)


def test_every_verdict_is_explained_and_no_other() -> None:
    rows = re.findall(r"^\| ([a-z, ]+) \| ", TEXT, re.MULTILINE)
    words = {word for row in rows for word in row.split(", ")} - {"verdict"}
    rare = {Verdict.STEPS_SLOWER, Verdict.SUSPICIOUS, Verdict.FITS, Verdict.DOES_NOT_FIT}
    assert words == set(Verdict) - rare


def test_the_fields_that_it_names_are_in_the_json() -> None:
    for path in re.findall(r"`comparison\.(\w+)`", TEXT):
        assert path in attrs.fields_dict(Comparison)
    assert {"next_steps", "addition"} <= set(attrs.fields_dict(Results))
