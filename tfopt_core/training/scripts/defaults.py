"""The values of a script that no plugin changes: its own data, model and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.hooks import RunContext, TrainingOptions
from tfopt_core.training.defaults import KerasDefaults


@attrs.frozen(eq=False)
class ScriptDefaults(KerasDefaults):
    """The values of a fit that no plugin changes.

    :param plans: the data plans, by split.
    :param options: how the script compiled its model, and the callbacks of the call.
    """

    model: Any = None
    plans: Mapping[str, DataPlan] = attrs.field(factory=dict)
    options: TrainingOptions | None = None

    def build_dataset(self, run: RunContext, split: Literal["train", "validation"]) -> DataPlan:
        """Return the script's data, batched and shuffled as in its call."""
        return self.plans[split]

    def wrap_model(self, run: RunContext) -> Any:
        """Return the script's model, which is compiled already."""
        return self.model

    def configure_training(self, run: RunContext, model: Any) -> TrainingOptions:
        """Return the options that the script passed to `compile` and `fit`."""
        assert self.options is not None
        return self.options
