"""The settings of a training's checkpoints, and where it resumes. No TensorFlow."""

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


@attrs.frozen(kw_only=True)
class ResumePoint:
    """The checkpoints of a training, and the one that it resumes from.

    :param start: the file to resume from, None to train from the start; `values` are its content.
    :param damaged: newer checkpoints that were passed over.
    :param moved: the differences of the machine since then, in words.
    :param code: the facts that the training depends on, by name.
    """

    folder: Path
    start: str | None = None
    values: Mapping[str, Any] = attrs.field(factory=dict)
    damaged: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    code: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return bool(self.values.get("finished"))

    @property
    def epochs(self) -> int:
        """Epochs that are done."""
        return int(self.values.get("epochs", 0))
