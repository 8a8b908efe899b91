"""What `tfopt plan` prints."""

from __future__ import annotations

import pytest
from support.report_results import make_prepared, show

from tfopt_core.records.dry_build import PluginPlan
from tfopt_core.report.plan import render_plan


def plan(width: int = 80, **changes: object) -> str:
    return show(render_plan(make_prepared(**changes), "fashion-fast"), width)


def test_settings_show_what_auto_became() -> None:
    text = plan()
    assert "policy: auto -> mixed_bfloat16, keep: []" in text
    assert "storage: memory" in text
    assert "the same training, rounded differently" in text


def test_plugins_stand_in_the_order_of_the_stack_with_what_they_change() -> None:
    text = plan()
    assert text.index("1. mixed-precision") < text.index("2. cache")
    assert "configure_precision        policy: float32 -> mixed_bfloat16" in text
    assert "build_dataset, train       cache: in memory, after map_examples" in text
    assert "build_dataset, validation" not in text


def test_a_plugin_that_would_change_nothing_says_so_with_the_reason_if_it_is_certain() -> None:
    idle = PluginPlan(
        name="idle", settings={}, asked={}, equivalence="exact", summary="", changes=()
    )
    assert "nothing here\n" in plan(plugins=(idle,))
    assert "nothing here: no GPU" in plan(plugins=(idle,), not_applied={"idle": "no GPU"})


def test_a_data_plan_is_compared_stage_by_stage() -> None:
    lines = [line.strip() for line in plan().splitlines()]
    assert "+  cache: in memory" in lines
    assert "unchanged by the stack" in lines  # that of the validation
    assert lines.index("-  prefetch: 1") < lines.index("+  prefetch: auto")


def test_facts_and_warnings_are_shown() -> None:
    text = plan(warnings=("no GPU was found",))
    for part in ("421,642 trainable", "5 epochs of 1,875 steps, batch size 32", "val_accuracy, "
                 "higher is better; 10,000 validation examples", "- no GPU was found"):  # fmt: skip
        assert part in text


def test_a_loop_of_the_scripts_own_has_no_epochs_and_no_metric() -> None:
    loop = {"own_loop": True, "quality_metric": "", "quality_direction": None}
    text = " ".join(plan(**loop, steps_per_epoch=None).split())
    assert "training as long as the script's own loop goes on, batch size 32" in text
    assert "its time alone" in text
    assert "300 updates, after which a run ends" in plan(**loop, steps_per_epoch=300)


def test_unknown_facts_are_left_out() -> None:
    text = plan(steps_per_epoch=None, batch_size=None, validation_examples=None, baseline="",
                versions={}, data_before={}, data_after={})  # fmt: skip
    assert "None" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_console(width: int) -> None:
    name = "x" * 100
    long = PluginPlan(name=name, settings={name: name}, asked={name: "auto"}, equivalence="exact",
                      summary=name, changes=())  # fmt: skip
    text = plan(width, plugins=(long,), data_after={"train": (name, name)}, baseline=name)
    assert max(map(len, text.splitlines())) <= width
