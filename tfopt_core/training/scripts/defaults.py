"""Core's implementations of the hooks for a script: what its own call of `fit` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.hooks import TrainingOptions, hookimpl
from tfopt_core.training.defaults import KerasDefaults


@attrs.frozen(eq=False)
class ScriptDefaults(KerasDefaults):
    """What a fit does when no plugin has a say.

    :param plans: of its data, by split.
    :param options: how the script compiled its model, and the callbacks of the call.
    """

    model: Any = None
    plans: Mapping[str, DataPlan] = attrs.field(factory=dict)
    options: TrainingOptions | None = None

    @hookimpl
    def build_dataset(self, split: Literal["train", "validation"]) -> DataPlan:
        """The script's data, batched and shuffled as it says."""
        return self.plans[split]

    @hookimpl
    def wrap_model(self) -> Any:
        """The script's model, compiled already."""
        return self.model

    @hookimpl
    def configure_training(self) -> TrainingOptions:
        """What the script gave to `compile` and `fit`."""
        assert self.options is not None
        return self.options
