"""Stages that change how a pipeline runs, not what it yields."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.data.stages.base import Stage


@attrs.frozen(kw_only=True, eq=False)
class Cache(Stage):
    """Keeps elements after their first computation, in memory or in files under `path`."""

    kind: ClassVar[str] = "cache"
    path: Path | None = None

    def describe(self) -> str:
        return "cache: in memory" if self.path is None else "cache: on disk"


@attrs.frozen(kw_only=True, eq=False)
class Prefetch(Stage):
    """Computes elements ahead of their use. One that a plugin adds is lowered last, wherever it
    is put; one that stood `inside` a given pipeline stays in its place.

    `device` names the device into whose memory the elements are copied, None for none.
    """

    kind: ClassVar[str] = "prefetch"
    buffer_size: int | Literal["auto"] = "auto"
    inside: bool = False
    device: str | None = None

    def describe(self) -> str:
        size = "AUTOTUNE" if self.buffer_size == "auto" else str(self.buffer_size)
        return f"prefetch: {size}" + (f", to {self.device}" if self.device else "")


@attrs.frozen(kw_only=True, eq=False)
class Autotune(Stage):
    """How tf.data tunes the whole pipeline while it runs; None leaves its own choice."""

    kind: ClassVar[str] = "autotune"
    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget_bytes: int | None = None

    def describe(self) -> str:
        if self.enabled is False:
            return "autotune: off"
        budgets = []
        if self.cpu_budget is not None:
            budgets.append(f"{self.cpu_budget} CPUs")
        if self.ram_budget_bytes is not None:
            budgets.append(f"{self.ram_budget_bytes / 2**20:,.0f} MiB")
        return "autotune: " + (", ".join(budgets) or "on")


@attrs.frozen(kw_only=True, eq=False)
class Options(Stage):
    """The `tf.data.Options` that a given pipeline carries."""

    kind: ClassVar[str] = "options"
    options: Any

    def describe(self) -> str:
        return "options"


@attrs.define(eq=False)
class Held:
    """What a `Resident` stage holds once its plan was lowered: a structure of tensors whose
    leaves share their first axis, and their number of elements."""

    tensors: Any = None
    count: int | None = None


@attrs.frozen(kw_only=True, eq=False)
class Resident(Stage):
    """Computes all elements so far once, and keeps them as tensors in the device's memory.

    Lowering fills `held`; a resident loop gathers its batches from there, and any other loop
    reads them as a data set of slices. `device` None leaves them where TensorFlow puts them.
    """

    kind: ClassVar[str] = "resident"
    device: str | None = None
    held: Held = attrs.field(factory=Held, repr=False)

    def describe(self) -> str:
        return f"resident: in the memory of {self.device or 'the device'}"
