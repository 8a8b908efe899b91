"""The checkpoint from which a training resumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


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
