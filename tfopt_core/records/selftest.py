"""The result of `tfopt selftest`: what measuring said of two controls."""

from __future__ import annotations

from typing import Literal

import attrs

from tfopt_core.records.results import Results
from tfopt_core.records.verdict import Verdict

ControlName = Literal["nothing", "sleeps"]


@attrs.frozen
class ControlTrial:
    """One control, measured once."""

    control: ControlName
    results: Results

    @property
    def as_expected(self) -> bool:
        """The no-op must be neither faster nor slower, the one that sleeps must be slower."""
        verdict = self.results.comparison.verdict
        if self.control == "nothing":
            return verdict in (Verdict.NO_DIFFERENCE, Verdict.INCONCLUSIVE, Verdict.DISTURBED)
        return verdict is Verdict.SLOWER
