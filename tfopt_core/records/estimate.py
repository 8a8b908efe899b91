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
