"""The data sets of a fit, each lowered when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.training.scripts.fit_data import unchanged


class LoweredData(Mapping[str, Any]):
    """Data sets by split, each lowered on first access, since large arrays are copied.

    :param in_place: called with the split and the data set of a plan that is not the script's;
        returns the data set that takes the place of the script's.
    """

    def __init__(
        self,
        plans: Mapping[str, DataPlan],
        before: Mapping[str, DataPlan],
        in_place: Callable[[str, Any], Any],
    ) -> None:
        self._plans, self._made = plans, dict[str, Any]()
        self._before, self._in_place = before, in_place

    def __getitem__(self, split: str) -> Any:
        if split not in self._made:
            self._made[split] = lower(self._plans[split])
            if not unchanged(self._plans[split], self._before[split]):
                self._made[split] = self._in_place(split, self._made[split])
        return self._made[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)
