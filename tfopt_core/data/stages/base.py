"""What every stage of an input pipeline has."""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs

Parallelism = int | Literal["auto"] | None


@attrs.frozen(kw_only=True, eq=False)
class Stage:
    """One step of a pipeline.

    `deterministic` says whether the stage yields the same elements in the same order each time
    it is iterated; None means that this depends on a function that was not looked into yet
    (`determinism.random_ops` does).
    """

    kind: ClassVar[str] = "stage"
    deterministic: bool | None = True

    def describe(self) -> str:
        """The stage in one line, as `tfopt plan` prints it."""
        return self.kind
