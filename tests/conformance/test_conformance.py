"""Every plugin that the tfopt distribution registers keeps the contract."""

import json
import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.plugin_settings import NEEDED

from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.plugin_class import HEADINGS, card, traits
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.table import to_json
from tfopt_core.recipe.values import faults_of, field_types
from tfopt_core.testing import check_plugin

DISTRIBUTION = "tfopt"
# The shipped ones, from where they are registered: a new one is tested without being named here.
OURS = {
    name: found[0]
    for name, found in registrations().items()
    if found[0].distribution == DISTRIBUTION
}


def made(name: str) -> Any:
    return OURS[name].load()(**NEEDED.get(name, {}))


@pytest.mark.parametrize("group", ["tfopt.plugins", "tfopt.workloads"])
def test_what_is_registered_is_what_pyproject_says(group: str) -> None:
    project = tomllib.loads(Path(__file__, "../../../pyproject.toml").resolve().read_text())
    registered = {
        name: found[0].entry_point.value
        for name, found in registrations(group).items()
        if found[0].distribution == DISTRIBUTION
    }
    assert registered == project["project"]["entry-points"][group], "run `make venv` again"


def test_no_name_is_registered_twice() -> None:
    assert [name for name, found in registrations().items() if len(found) > 1] == []


@pytest.mark.parametrize("name", OURS)
def test_it_passes_the_check_that_third_parties_use(name: str) -> None:
    check_plugin(name, OURS[name].load(), **NEEDED.get(name, {}))


@pytest.mark.parametrize("name", OURS)
def test_its_card_has_a_short_summary_and_text_under_every_heading(name: str) -> None:
    summary, sections = card(OURS[name].load())
    assert summary.endswith(".")
    assert len(summary) <= 100
    assert [heading for heading, text in sections if text] == list(HEADINGS)


@pytest.mark.parametrize("name", OURS)
def test_it_has_targets_and_its_relations_name_plugins_that_exist(name: str) -> None:
    said = traits(name, OURS[name].load())
    assert said.targets
    assert {*said.requires, *said.conflicts, *said.before, *said.after} <= set(OURS)


def test_a_stack_has_one_strategy() -> None:
    owners = {name for name, found in OURS.items() if hasattr(found.load(), OWNER_HOOK)}
    for name in owners:
        assert owners - {name} <= set(traits(name, OURS[name].load()).conflicts)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_has_a_sentence_of_help_and_a_default_of_its_type(name: str) -> None:
    types = field_types(OURS[name].load())
    for attribute in attrs.fields(OURS[name].load()):
        assert attribute.metadata["help"].endswith("."), attribute.name
        if attribute.default is not attrs.NOTHING and attribute.default is not None:
            assert not faults_of(attribute.default, types[attribute.name])


@pytest.mark.parametrize("name", OURS)
def test_its_settings_survive_json(name: str) -> None:
    plugin = made(name)
    settings = StackedPlugin(name, plugin).settings
    through_json = json.loads(json.dumps(to_json(settings)))
    rebuilt = type(plugin)(
        **{
            key: tuple(value) if isinstance(value, list) else value
            for key, value in through_json.items()
        }
    )
    assert StackedPlugin(name, rebuilt).settings == settings


@pytest.mark.parametrize("name", OURS)
def test_it_is_frozen_and_compares_by_identity(name: str) -> None:
    plugin = made(name)
    assert plugin != made(name)
    for attribute in attrs.fields(type(plugin)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(plugin, attribute.name, None)


ON_XLA = [({}, "rounding"), ({"xla": True}, "rounding"), ({"xla": False}, "exact")]
EQUIVALENCES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "batch": [
        ({}, "rounding"), ({"last": "keep"}, "exact"), ({"last": "drop"}, "changes"),
        ({"last": "keep", "pad_to": "power-of-two"}, "changes"),
    ],
    "parallel-map": [
        ({}, "exact"), ({"random_maps": True}, "rounding"), ({"ordered": False}, "order"),
    ],
    "vectorize-map": [({}, "rounding"), ({"rounding": False}, "exact")],
    "shard": [
        ({}, "exact"), ({"count": 1, "index": 0}, "exact"), ({"count": 2, "index": 0}, "changes"),
    ],
    "chunked": ON_XLA,
    "resident": ON_XLA,
    "mirrored": [({}, "rounding"), ({"batch_size": "per-replica"}, "changes")],
    "multi-worker": [
        ({}, "rounding"), ({"batch_size": "per-replica"}, "changes"),
        ({"shard": "source"}, "changes"), ({"shard": "off"}, "changes"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_what_a_plugin_says_of_the_training_follows_its_settings(name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for settings, equivalence in EQUIVALENCES[name]:
        assert OURS[name].load()(**settings).equivalence() == equivalence, settings
