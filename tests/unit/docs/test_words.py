"""What guides, skill and CONTRIBUTING say of plugins, fields, outcomes and verdicts is so."""

import importlib
import re
import sys
import tomllib

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from support.pages import ROOT, blocks, guide, text_of
from support.plugin_drive import machine_with
from support.plugin_settings import NEEDED
from tfopt_data.service_local import LocalService

from tfopt_core.commands.main import cli
from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginDefinitionError, TfoptError
from tfopt_core.hooks import diagnosis
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.own_loop import why_not_reached
from tfopt_core.plugins import Diagnosis, PluginRefused, TrainingOptions
from tfopt_core.statistics.results import Comparison, Results, Verdict
from tfopt_core.testing import check_plugin, make_run, stack_of
from tfopt_core.tuning.results import BoundStep, NotTried, StackTrial, TrialOutcome, TuneResult
from tfopt_core.tuning.search import FORWARD_SHARE, SEARCH_SHARE


def words(page):
    return set(re.findall(r"`([\w-]+)", guide(page)))


def test_everything_that_a_plugin_may_read_is_documented():
    fields = {field.name for field in attrs.fields(Diagnosis)}
    assert fields | {"bound", "found"} <= words("diagnosing.md")


def test_every_kind_of_finding_is_documented():
    made = set()
    for path in (ROOT / "tfopt_core").rglob("*.py"):
        made |= set(re.findall(r'kind="([a-z-]+-[a-z-]+)"', path.read_text(encoding="utf-8")))
    assert len(made) > 10
    assert made <= words("diagnosing.md")
    assert made <= set(re.findall(r'"([a-z-]+)"', diagnosis.Finding.__doc__ or ""))


TUNING = guide("tuning.md")


@pytest.mark.parametrize("part", [TuneResult, StackTrial, BoundStep, NotTried])
def test_every_field_of_the_json_is_documented(part):
    json_part = TUNING.partition("## Its JSON")[2]
    words = set(re.findall(r"`(\w+)(?:\[\])?`", json_part))
    assert {field.name for field in attrs.fields(part)} <= words


def test_every_outcome_is_documented():
    assert all(outcome.value in TUNING for outcome in TrialOutcome)


def test_the_shares_of_the_budget_are_those_of_the_search():
    assert f"{FORWARD_SHARE:.0%}" in TUNING
    assert f"{SEARCH_SHARE:.0%}" in TUNING


SKILL = CliRunner().invoke(cli, ["skill"]).output


def test_it_begins_as_agents_read_skills():
    assert re.match(r"---\nname: tfopt\ndescription: .+\n---\n", SKILL)


def test_every_command_exists():
    named = set(re.findall(r"\btfopt ([a-z]+)\b(?! is)", SKILL)) - {"trains"}
    assert {"apply", "diagnose", "train", "export", "compare", "plan"} <= named
    assert named <= set(cli.commands)


def test_every_verdict_is_explained_and_no_other():
    rows = re.findall(r"^\| ([a-z, ]+) \| ", SKILL, re.MULTILINE)
    words = {word for row in rows for word in row.split(", ")} - {"verdict"}
    assert words == set(Verdict)


def test_the_fields_that_it_names_are_in_the_json():
    for path in re.findall(r"`comparison\.(\w+)`", SKILL):
        assert path in attrs.fields_dict(Comparison)
    assert {"next_steps", "addition"} <= set(attrs.fields_dict(Results))


OURS = {n: f[0].load() for n, f in registrations().items() if f[0].distribution == "tfopt"}


def reached_by():
    """The plugins in the cells of the table: in the first, those in the second and so on."""
    section = guide("scripts.md").partition("\n## Which optimization")[2]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[set(re.findall(r"`([a-z0-9-]+)`", cell)) for cell in row] for row in rows[1:]]


STEP, OWN_LOOP, REPLICAS = reached_by()
STRATEGIES = REPLICAS[0] | {"one-device"}


def test_the_table_names_plugins_that_ship():
    assert STEP[1] | OWN_LOOP[1] | REPLICAS[1] <= OURS.keys()


def test_a_loop_of_the_scripts_own_is_reached_by_what_acts_without_compile_and_fit():
    assert OWN_LOOP[1] == {name for name, one in OURS.items() if not why_not_reached(one)}


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", sorted(OURS.keys() - STRATEGIES))
def test_what_several_replicas_refuse_is_in_the_table(name, monkeypatch):
    """What a plugin refuses because of replicas, it keeps as its reason for `report_effect`."""

    def start(*_):
        raise PluginRefused("the processes of a service would be started")

    monkeypatch.setattr(LocalService, "start", start)
    plugin = OURS[name](**NEEDED.get(name, {}))
    run = make_run(replicas=2, machine=machine_with((8, 0)), batch_size=4)
    hooks = set(implementations(type(plugin)))
    plan = DataPlan.from_arrays(np.zeros((8, 3), "float32"), np.zeros((8, 1), "float32")).batch(4)
    options = TrainingOptions(optimizer="sgd", loss="mse")
    arguments = {"build_dataset": "train", "configure_training": None}
    for hook, value in (("build_dataset", plan), ("configure_training", options)):
        if hook in hooks and not (name == "resident" and hook == "configure_training"):
            try:
                getattr(stack_of(plugin, **{hook: value}), hook)(run, arguments[hook])
            except TfoptError as refusal:
                run.state_of("refusals")[hook] = str(refusal)
    refused = any(why in repr(run.states) for why in ("replicas", "devices itself"))
    assert refused is (name in REPLICAS[1])


CONTRIBUTING = text_of("CONTRIBUTING.md")
MODULE = "tfopt_data_threads"


@pytest.fixture
def project(tmp_path):
    """A folder with the plugin and its test, under the names that the text gives."""
    plugin, test = blocks(CONTRIBUTING, "python")
    (tmp_path / f"{MODULE}.py").write_text(plugin, encoding="utf-8")
    (tmp_path / "test_data_threads.py").write_text(test, encoding="utf-8")
    return tmp_path


@pytest.fixture
def plugin_class(project, monkeypatch):
    """The class that the entry point of the text names."""
    [registered] = blocks(CONTRIBUTING, "toml")
    entries = tomllib.loads(registered)["project"]["entry-points"]["tfopt.plugins"]
    module, _, name = entries["data-threads"].partition(":")
    monkeypatch.syspath_prepend(project)
    yield getattr(importlib.import_module(module), name)
    for module in (MODULE, "test_data_threads"):
        sys.modules.pop(module, None)


def test_a_suggestion_that_does_not_fit_its_settings_breaks_the_contract(plugin_class):
    plugin_class.suggest = lambda self, diagnosis: {"threads": 0}
    with pytest.raises(PluginDefinitionError, match=r"suggest\(diagnosis\) fails.*threads"):
        check_plugin("data-threads", plugin_class)


@pytest.mark.tensorflow
def test_its_own_tests_hold(plugin_class):
    module = importlib.import_module("test_data_threads")
    tests = [getattr(module, name) for name in vars(module) if name.startswith("test_")]
    assert len(tests) == 2
    for one in tests:
        one()
