"""The safe stack: chosen by what plugins say of themselves, never by their names."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.hooks.card import Traits
from tfopt_core.hooks.installed.inspection import PluginInfo, inspect_plugins
from tfopt_core.hooks.installed.safe_stack import in_order, safe_stack

PLAIN = Traits(
    targets=("input",), role="optimization", model_change="none", requires=(), conflicts=(),
    before=(), after=(),
)  # fmt: skip


def plugin(name: str, math: str = "exact", **changes: Any) -> PluginInfo:
    hooks = changes.pop("hooks", ("build_dataset",))
    error = changes.pop("error", None)
    return PluginInfo(
        name=name, distribution="theirs", version="1", math=math, hooks=hooks, error=error,
        traits=attrs.evolve(PLAIN, **changes),
    )  # fmt: skip


def stack(*infos: PluginInfo) -> list[tuple[str, bool]]:
    return [(one.info.name, one.enabled) for one in safe_stack(infos)]


def test_what_is_exact_around_the_model_is_on_and_what_rounds_or_reorders_is_off() -> None:
    infos = [
        plugin("rounds", "rounding"),
        plugin("steps", targets=("dispatch",)),
        plugin("reorders", "order"),
        plugin("computes", targets=("input", "compute")),
        plugin("says-nothing", "unknown"),
        plugin("data"),
    ]
    assert stack(*infos) == [
        ("steps", True), ("data", True), ("rounds", False), ("reorders", False),
        ("computes", False), ("says-nothing", False),
    ]  # fmt: skip


def test_what_needs_more_than_its_name_is_left_out() -> None:
    infos = [
        plugin("changes", "changes"),
        plugin("needs-a-setting", ""),
        plugin("needs-another", requires=("data",)),
        plugin("needs-devices", hooks=("build_strategy",)),
        plugin("shares-out", targets=("input", "communication")),
        plugin("replaces", "rounding", model_change="replaces"),
        plugin("looks-on", role="observer"),
        PluginInfo(name="broken", distribution="theirs", version="1", error="RuntimeError: no"),
        plugin("data"),
    ]
    assert stack(*infos) == [("data", True)]


def test_of_two_that_conflict_the_second_is_off_whoever_says_so() -> None:
    assert stack(plugin("a", conflicts=("b",)), plugin("b")) == [("a", True), ("b", False)]
    assert stack(plugin("a"), plugin("b", conflicts=("a",))) == [("a", True), ("b", False)]


def test_the_order_is_what_the_plugins_ask_for_and_holds_when_one_is_switched_on() -> None:
    infos = [
        plugin("last", after=("first", "off")),
        plugin("off", "rounding", before=("other",)),
        plugin("first"),
        plugin("other", before=("last",)),
    ]
    names = [name for name, _ in stack(*infos)]
    assert names == ["first", "off", "other", "last"]


def test_wishes_that_contradict_each_other_end() -> None:
    said = {
        "a": attrs.evolve(PLAIN, after=("b",)),
        "b": attrs.evolve(PLAIN, after=("a",)),
    }
    assert sorted(in_order(said)) == ["a", "b"]


def test_the_plugins_that_ship_give_a_stack_that_is_exact() -> None:
    infos = {info.name: info for info in inspect_plugins()}
    found = safe_stack([*infos.values()])
    on = [one.info for one in found if one.enabled]
    assert on
    assert {info.math for info in on} == {"exact"}
    assert any(not one.enabled for one in found)
