"""The settings of a training's checkpoints. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class CheckpointConfig:
    """Where a training writes checkpoints, and from which one it resumes.

    :param start: the name of the checkpoint to resume from, None to train from the beginning.
    :param about: a description of the training, which each checkpoint holds.
    """

    folder: Path
    start: str | None = None
    about: Mapping[str, Any] = attrs.field(factory=dict)
