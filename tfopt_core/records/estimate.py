"""The estimated duration of a training, as data. No TensorFlow."""

from __future__ import annotations

import attrs


@attrs.frozen
class Estimate:
    """The estimated time of a steady step, and of a whole training with its start.

    :param steps: the steps of all epochs; the time of a validation is counted in steps too.
    """

    step_seconds: float
    seconds: float
    steps: float

    def at_pace(self, then: Estimate, now: Estimate) -> Estimate:
        """Return this estimate as of another moment: a machine's speed drifts.

        :param then: one of the baseline, of that moment.
        :param now: one of the baseline, of the moment of this estimate.
        """
        factor = then.step_seconds / now.step_seconds
        return Estimate(self.step_seconds * factor, self.seconds * factor, self.steps)

    @property
    def set_up_seconds(self) -> float:
        """The seconds of building and tracing, before the first steady step."""
        return max(0.0, self.seconds - self.steps * self.step_seconds)
