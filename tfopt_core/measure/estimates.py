"""What a training will take, as data. No TensorFlow."""

from __future__ import annotations

import attrs


@attrs.frozen
class Estimate:
    """About how long a steady step takes, and a whole training with its start."""

    step_seconds: float
    seconds: float
