"""What `tfopt skill` prints names commands, verdicts and fields that there are."""

from __future__ import annotations

import re

import attrs
from click.testing import CliRunner

from tfopt_core.commands.main import cli
from tfopt_core.records.results import Comparison, Results
from tfopt_core.records.verdict import Verdict

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
