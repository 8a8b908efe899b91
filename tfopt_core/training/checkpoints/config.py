"""Where and when a training writes checkpoints, and from which it resumes. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class CheckpointConfig:
    """Where and when a training writes checkpoints, and from which one it resumes.

    :param every: steps after which one is written within an epoch too, None for at epoch ends only.
    :param start: the name of the checkpoint to resume from, None to begin at the start.
    :param about: goes into each checkpoint as it is: what the training was begun with.
    """

    folder: Path
    every: int | None = None
    start: str | None = None
    about: Mapping[str, Any] = attrs.field(factory=dict)
