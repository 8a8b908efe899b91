"""The checkpoint from which a training resumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class ResumePoint:
    """The checkpoints of a training, and the one that it resumes from.

    :param start: the file to resume from, None to begin at the start; `values` is what it holds.
    :param damaged: newer checkpoints that were passed over.
    :param moved: what of the machine is not as it was, in words.
    :param code: what the training depends on now, by name.
    """

    folder: Path
    every: int | None = None
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

    @property
    def steps(self) -> int:
        """Steps that are done of the epoch after these."""
        return int(self.values.get("steps", 0))
