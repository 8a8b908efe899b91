"""What the guide says of the JSON of each command: every field of it, and no other."""

import json
import re
from pathlib import Path

import attrs
import pytest
from support.in_process import tfopt_here
from support.pages import first_cells, guide
from support.report_results import make_prepared

from tfopt_core.commands.output import to_json
from tfopt_core.diagnosis import results as diagnosis
from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.hooks.plugin_class import Traits
from tfopt_core.report.listing import DoctorFinding
from tfopt_core.statistics import results, runs
from tfopt_core.trials.request import HookChange, PluginPlan, Prepared

SECTIONS = dict(
    re.findall(r"^(#+ .+?)\n(.*?)(?=^#|\Z)", guide("programs.md"), re.MULTILINE | re.DOTALL)
)


def fields_of(section):
    return first_cells(SECTIONS[section])


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("### Top level", results.Results),
        ("### `runs[]`", runs.RunResult),
        ("### `runs[].fits[]`", runs.FitResult),
        ("### `comparison`", results.Comparison),
        ("### `comparison.memory[]`", results.MemoryContrast),
        ("### `comparison.quality`", results.Quality),
        ("### `addition`", results.Addition),
        ("### `attribution[]`", results.Attribution),
        ("## The JSON of `diagnose`", diagnosis.Diagnosed),
        ("### `plan`", Prepared),
        ("### `plan.plugins[]`", PluginPlan),
        ("### `plugins[]`", PluginInfo),
    ],
)
def test_a_table_names_the_fields_and_no_others(section, part):
    assert fields_of(section) == {field.name for field in attrs.fields(part)}


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("## The JSON of `diagnose`", diagnosis.StepPart),
        ("## The JSON of `diagnose`", diagnosis.EpochPart),
        ("## The JSON of `diagnose`", diagnosis.Bounds),
        ("## The JSON of `diagnose`", diagnosis.Round),
        ("## The JSON of `diagnose`", diagnosis.Suggestion),
        ("## The JSON of `diagnose`", diagnosis.NoAnswer),
        ("### `plan.plugins[]`", HookChange),
        ("### `plugins[]`", Traits),
        ("### `plugins[]`", Setting),
        ("## The JSON of `doctor`", DoctorFinding),
    ],
)
def test_fields_of_inner_records_are_named_in_the_text(section, part):
    words = set(re.findall(r"`(\w+)`", SECTIONS[section]))
    assert {field.name for field in attrs.fields(part)} <= words


def written(*arguments, folder):
    done = tfopt_here(*arguments, "--json", "-", cwd=folder)
    assert done.code == 0, done.err
    assert done.err  # the page, for people
    return json.loads(done.out)


def test_recipes_are_written(tmp_path):
    data = written("recipes", folder=tmp_path)
    assert set(data) == fields_of("## The JSON of `recipes`")
    words = set(re.findall(r"`(\w+)`", SECTIONS["## The JSON of `recipes`"]))
    assert set(data["recipes"][0]) <= words
    [quickstart] = [recipe for recipe in data["recipes"] if recipe["name"] == "quickstart"]
    assert Path(quickstart["path"]).is_file()
    assert quickstart["summary"].startswith("Start here")


def test_a_plugin_is_written(tmp_path):
    data = written("plugins", "show", "cache", folder=tmp_path)
    assert set(data) == fields_of("## The JSON of `plugins`")
    [cache] = data["plugins"]
    assert set(cache) == fields_of("### `plugins[]`")
    assert (cache["name"], cache["error"], cache["equivalence"]) == ("cache", None, "exact")
    assert "storage" in {setting["name"] for setting in cache["settings"]}


def test_all_plugins_and_the_machine_are_written(tmp_path, monkeypatch):
    info = PluginInfo(name="mine", distribution="d", version="1", error="cannot be imported")
    monkeypatch.setattr("tfopt_core.hooks.installed.inspection.inspect_plugins", lambda: (info,))
    data = written("plugins", folder=tmp_path)
    assert data["plugins"][0]["error"] == "cannot be imported"
    findings = (DoctorFinding(subject="GPUs", ok=None, detail="none"),)
    monkeypatch.setattr("tfopt_core.commands.doctor.examine", lambda: findings)
    data = written("doctor", folder=tmp_path)
    assert set(data) == fields_of("## The JSON of `doctor`")
    assert data == {
        "schema_version": 2,
        "ok": True,
        "findings": [{"subject": "GPUs", "ok": None, "detail": "none", "mend": ""}],
    }


def test_a_plan_is_written(tmp_path, monkeypatch):
    prepared = make_prepared()
    monkeypatch.setattr("tfopt_core.trials.processes.prepare", lambda *_: (prepared, None))
    data = written("plan", "quickstart", folder=tmp_path)
    assert data == {"schema_version": 2, "recipe": "quickstart", "plan": to_json(prepared)}
    assert set(data) == fields_of("## The JSON of `plan`")
    assert set(data["plan"]) == fields_of("### `plan`")
    assert data["plan"]["plugins"][0]["settings"]["policy"] == "mixed_bfloat16"


@pytest.mark.parametrize(
    "command", [("plugins", "show", "cache"), ("recipes", "copy", "quickstart")]
)
def test_json_before_a_subcommand_is_refused(command, tmp_path):
    group, *rest = command
    done = tfopt_here(group, "--json", "x.json", *rest, cwd=tmp_path)
    assert done.code == 2
    assert f"--json before {rest[0]}" in " ".join(done.err.split())
    assert list(tmp_path.iterdir()) == []
