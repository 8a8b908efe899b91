"""What `tfopt plugins check` finds, of a class and of a replay; trainings are in the integration
tests."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tfopt_core.commands.plugin_check import exactness, missing_contract, round_trip
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.statistics.certificate import Certificate, impossible


def certificate(kind: Any) -> Certificate:
    return Certificate(kind=kind, statement="as replayed")


@pytest.mark.parametrize(
    ("equivalence", "replayed", "ok"),
    [
        ("exact", certificate("certified"), True),
        ("exact", certificate("diverges"), False),
        ("order", certificate("diverges"), False),
        ("rounding", certificate("diverges"), True),
        ("unknown", certificate("certified"), None),
        ("exact", impossible("a replay leaves out a callback"), None),
        ("changes", None, None),
        ("exact", None, None),
    ],
)
def test_what_a_plugin_declares_is_compared_with_the_replay(
    equivalence: str, replayed: Certificate | None, ok: bool | None
) -> None:
    finding = exactness(equivalence, replayed, ["clip-gradients"])
    assert finding.ok is ok
    assert replayed is None or replayed.statement in finding.detail
    assert ("clip-gradients" in finding.detail) is (equivalence == "exact" and replayed is None)


def test_settings_that_json_changes_are_found() -> None:
    @attrs.frozen(kw_only=True, eq=False)
    class Keyed:
        sizes: dict[Any, int]

    finding = round_trip(StackedPlugin("keyed", Keyed(sizes={1: 2})))
    assert finding.ok is False
    assert "{'1': 2}" in finding.detail
    assert round_trip(StackedPlugin("keyed", Keyed(sizes={"1": 2}))).ok is True


def test_a_class_without_a_card_is_found_and_one_that_ships_is_not() -> None:
    cache = registrations()["cache"][0].load()
    assert missing_contract("cache", cache, {}).ok is True

    class Bare(cache):  # type: ignore[misc, valid-type]
        pass

    finding = missing_contract("bare", Bare, {})
    assert finding.ok is False
    assert "has no docstring" in finding.detail
