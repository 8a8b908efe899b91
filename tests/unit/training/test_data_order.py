"""Calls for steps that were made before a stop make none, and are counted all the same."""

from __future__ import annotations

import pytest

from tfopt_core.training.data_order import without_steps_done


@pytest.mark.parametrize(("steps", "steps_per_call", "skipped"), [(4, 1, 4), (8, 4, 2), (11, 4, 3)])
def test_so_many_calls_are_answered_without_a_step(steps, steps_per_call, skipped):
    events = []

    def train_function(iterator):
        events.append("step")
        return {"loss": 2.0}

    function = without_steps_done(
        train_function, steps=steps, steps_per_call=steps_per_call, reads=False,
        logs=lambda: {"loss": 1.0}, skipped=lambda: events.append("skipped"),
        goes_on=lambda: events.append("goes on"),
    )  # fmt: skip
    answers = [function(None)["loss"] for _ in range(skipped + 2)]
    assert answers == [1.0] * skipped + [2.0] * 2
    assert events == ["skipped", "goes on", "step", "step"]
