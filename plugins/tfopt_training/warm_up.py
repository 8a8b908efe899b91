"""A linear warm-up before any learning-rate schedule; Keras has one for cosine decay only."""

from __future__ import annotations

import functools
from typing import Any


def warm_up(schedule: Any, peak: float, steps: int) -> Any:
    """Rise linearly from 0 to `peak` over `steps` steps, then follow `schedule` from its start."""
    return _schedule_class()(schedule, peak, steps)


@functools.cache
def _schedule_class() -> Any:
    import keras

    class WarmUp(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        """A linear rise from 0 to `peak`, then the schedule."""

        # not registered with Keras: `LrSchedule.unwrap` takes it out before saving

        def __init__(self, schedule: Any, peak: float, steps: int) -> None:
            self.schedule, self.peak, self.steps = schedule, peak, steps

        def __call__(self, step: Any) -> Any:
            ops = keras.ops
            step = ops.cast(step, "float32")
            rising = self.peak * step / self.steps
            later = self.schedule(ops.maximum(step - self.steps, 0.0))
            return ops.where(step < self.steps, rising, later)

        def get_config(self) -> dict[str, Any]:
            return {"schedule": self.schedule, "peak": self.peak, "steps": self.steps}

    return WarmUp
