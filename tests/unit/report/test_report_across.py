"""Two measurements side by side."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from support.report_results import make_results, make_run, show

from tfopt_core.hooks import Effect
from tfopt_core.report.results.across import render_across
from tfopt_core.report.results.as_json import to_json
from tfopt_core.statistics.across import Across, Measured, compare_stacks

LONG = "long-" * 30
HOSTILE = "[/red]\x1b[31m"


def compared(share: float = 0.8, **changes: Any) -> Across:
    """A, and a B whose runs with the stack take this share of A's; `changes` are made to B."""
    a = make_results(id="a")
    runs = tuple(
        attrs.evolve(run, wall_seconds=(run.wall_seconds or 0) * share * (1 + number / 500))
        if run.variant == "full" else run
        for number, run in enumerate(a.runs)
    )  # fmt: skip
    b = attrs.evolve(a, **{"id": "b", "recipe_sha256": "cd" * 32, "runs": runs, **changes})
    return compare_stacks(Measured(name="a", results=a), Measured(name="b.json", results=b))


def page(width: int = 80, **changes: Any) -> str:
    return show(render_across(compared(**changes)), width)


def test_both_sides_stand_beside_each_other() -> None:
    text = page(recipe="other")
    assert text.startswith("B's stack against A's on fashion-mnist\n")
    flowing = " ".join(text.split())
    for part in (
        "id a b", "from b.json", "recipe fashion-fast other", "own verdict faster faster",
        "1.25x (98% interval 1.24", "val_accuracy 0.9012 -> 0.9015", "2 min 3 s (median)",
    ):  # fmt: skip
        assert part in flowing


def test_the_verdict_stands_under_its_heading() -> None:
    flowing = " ".join(page().split())
    assert "Verdict B's stack is faster than A's: 1.2" in flowing
    assert flowing.endswith("each against its own baseline)")


def test_each_stack_stands_with_its_settings() -> None:
    resolved = {"cache": {"storage": "disk"}, "bare": {}}
    text = " ".join(page(resolved=resolved, width=120).split())
    assert "cache: storage = memory" in text
    assert "cache (not applied): storage = disk" not in text


def test_a_plugin_that_was_not_applied_is_marked() -> None:
    effects = {"mixed-precision": Effect(True, "x"), "cache": Effect(False, "y")}
    runs = tuple(
        make_run(n, "full", effects=effects) if n % 4 in (1, 2) else make_run(n) for n in range(8)
    )
    assert "cache (not applied)" in " ".join(page(runs=runs).split())


@pytest.mark.parametrize("name", [LONG, HOSTILE])
@pytest.mark.parametrize("width", [40, 80])
def test_long_and_hostile_names_fit_and_are_inert(name: str, width: int) -> None:
    across = compared(recipe=name, resolved={name: {name: name}})
    text = show(render_across(attrs.evolve(across, workload=name, warning=name)), width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_the_json_holds_the_samples_of_both_sides() -> None:
    data = to_json(compared())
    assert [len(data[side]["log_ratios"]) for side in "ab"] == [4, 4]
    assert data["schema_version"] == 2
    assert data["verdict"] == "faster"
