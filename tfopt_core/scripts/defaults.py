"""The values of a script that no plugin changes: its data, model, options, and its metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.hooks import RunContext, TrainingOptions
from tfopt_core.training.defaults import KerasDefaults
from tfopt_core.training.workload import quality_direction

# Of several losses the one that is minimized, before its parts, such as the kl_loss of a VAE.
WHOLE_LOSSES = ("loss", "total_loss")


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


def judged_metric(metrics: Sequence[str]) -> str:
    """Return the metric of quality if the recipe names none: the validation accuracy, or another
    metric of which it is known whether higher or lower is better; "" if there are others alone."""
    known = [name for name in metrics if quality_direction(name) is not None]
    validated = [name for name in known if name.startswith("val_")]
    for names in (
        [name for name in validated if name == "val_accuracy"],
        [name for name in validated if not name.endswith("loss")],
        [name for name in validated if name.removeprefix("val_") in WHOLE_LOSSES],
        validated,
        [name for name in known if not name.endswith("loss")],
        [name for name in WHOLE_LOSSES if name in metrics],
        known,
        () if metrics else WHOLE_LOSSES,
    ):
        if names:
            return names[0]
    return ""
