"""The `Probe` with which settings of "auto" are resolved in a script's own training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginRefused
from tfopt_core.hooks.probe import ProbedTraining
from tfopt_core.training.scripts.own_data import EPOCHS
from tfopt_core.training.scripts.own_effects import NO_DATA_SET
from tfopt_core.training.workload import Workload
from tfopt_core.trials.probing import ProcessProbe

NOT_TIMED = "its setting is found by timing steps, which a loop of the script's own does not allow"


@attrs.frozen(kw_only=True, eq=False)
class LoopData(Workload):
    """The data of a loop, as a probe reads them; it has no model of its own to build."""

    @classmethod
    def of(cls, plans: Mapping[str, DataPlan]) -> LoopData:
        """Return the data with these plans, by split."""
        return cls(
            train=plans.get("train"), validation=plans.get("validation"), build_model=_no_model,
            epochs=EPOCHS,
        )  # fmt: skip


def _no_model() -> Any:
    raise PluginRefused(NOT_TIMED)


@attrs.define(eq=False)
class OwnLoopProbe(ProcessProbe):
    """The `Probe` of a plugin in a loop of the script's own: of its data and the machine only."""

    def plan(self, split: str = "train") -> DataPlan:
        """Return the plan of the loop's data. :raises PluginRefused: if there are none."""
        return self._known(split)

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Return the mean bytes of an example, and their number."""
        self._known(split)
        return super().element_bytes(split)

    def _known(self, split: str) -> DataPlan:
        plan = self.workload.train if split == "train" else self.workload.validation
        if plan is None and split == "train":
            raise PluginRefused(NO_DATA_SET)
        if plan is None:
            raise ValueError(f"the loop has no {split} data so far")
        assert isinstance(plan, DataPlan)
        return plan

    def step_seconds(self, plugins: Sequence[Any]) -> list[float]:
        """Refuse. :raises PluginRefused: always."""
        raise PluginRefused(NOT_TIMED)

    def peak_memory_bytes(self, plugin: Any) -> int | None:
        """Refuse. :raises PluginRefused: always."""
        raise PluginRefused(NOT_TIMED)

    def model(self, plugin: Any) -> Any:
        """Refuse. :raises PluginRefused: always."""
        raise PluginRefused(NOT_TIMED)

    def training(self, plugin: Any) -> ProbedTraining:
        """Refuse. :raises PluginRefused: always."""
        raise PluginRefused(NOT_TIMED)
