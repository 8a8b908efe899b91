"""The estimated duration of a training, as data. No TensorFlow."""

from __future__ import annotations

import attrs


@attrs.frozen
class Estimate:
    """About how long a steady step takes, and a whole training of so many steps with its start.

    :param steps: those of all epochs; what a validation takes is counted in steps too.
    """

    step_seconds: float
    seconds: float
    steps: float
