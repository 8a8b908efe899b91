"""Stages that change how a pipeline runs, not what it yields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.data.stages.base import SameElements

# The attribute of a data set copied to a device: the stage that did it, and the data before it.
COPIED = "_tfopt_copied"


@attrs.frozen(kw_only=True, eq=False)
class Cache(SameElements):
    """Keeps elements after their first computation, in memory or in files under `path`."""

    kind: ClassVar[str] = "cache"
    path: Path | None = None

    @property
    def fills(self) -> bool:
        return True

    @property
    def holds(self) -> int | None:
        return None if self.path is None else 0

    @property
    def hands_on(self) -> bool:
        return self.path is None

    def lower(self, dataset: Any) -> Any:
        return dataset.cache("" if self.path is None else str(self.path))

    def describe(self) -> str:
        return "cache: in memory" if self.path is None else "cache: on disk"


@attrs.frozen(kw_only=True, eq=False)
class Prefetch(SameElements):
    """Computes elements ahead of their use. A prefetch of a plugin is lowered last,
    wherever it is put; one `inside` a given pipeline stays in its place.

    `device` names the device into whose memory the elements are copied, None for none.
    """

    kind: ClassVar[str] = "prefetch"
    neutral: ClassVar[bool] = True
    buffer_size: int | Literal["auto"] = "auto"
    inside: bool = False
    device: str | None = None

    def lower(self, dataset: Any) -> Any:
        import tensorflow as tf

        size = tf.data.AUTOTUNE if self.buffer_size == "auto" else self.buffer_size
        if self.device is None:
            return dataset.prefetch(size)
        ahead = dataset.apply(tf.data.experimental.prefetch_to_device(self.device, size))
        ahead.cardinality = dataset.cardinality  # TF 2.21 calls it unknown, and `fit` then warns
        vars(ahead)[COPIED] = self, dataset  # past the attributes that TensorFlow tracks
        return ahead

    def describe(self) -> str:
        size = "AUTOTUNE" if self.buffer_size == "auto" else str(self.buffer_size)
        return f"prefetch: {size}" + (f", to {self.device}" if self.device else "")


def before_copy(dataset: Any, change: Callable[[Any], Any]) -> Any:
    """Return the changed data set. A copy to a device stays last: behind one to a GPU, a stage
    such as `map` or `repeat`, which runs on the CPU, fails."""
    stage, uncopied = vars(dataset).get(COPIED, (None, dataset))
    return change(uncopied) if stage is None else stage.lower(change(uncopied))


@attrs.frozen(kw_only=True, eq=False)
class Autotune(SameElements):
    """Sets how tf.data tunes the pipeline while it runs; None leaves its default."""

    kind: ClassVar[str] = "autotune"
    neutral: ClassVar[bool] = True
    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget_bytes: int | None = None

    def lower(self, dataset: Any) -> Any:
        import tensorflow as tf

        options = tf.data.Options()
        for name, value in (
            ("enabled", self.enabled),
            ("cpu_budget", self.cpu_budget),
            ("ram_budget", self.ram_budget_bytes),
        ):
            if value is not None:
                setattr(options.autotune, name, value)
        return dataset.with_options(options)

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
class Options(SameElements):
    """The `tf.data.Options` that a given pipeline carries."""

    kind: ClassVar[str] = "options"
    neutral: ClassVar[bool] = True
    options: Any

    def lower(self, dataset: Any) -> Any:
        return dataset.with_options(self.options)
