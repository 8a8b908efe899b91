"""The results of `tfopt selftest`: measurements of two controls."""

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
        """Whether the no-op is neither faster nor slower, or the control that sleeps is slower."""
        verdict = self.results.comparison.verdict
        if self.control == "nothing":
            return verdict in (Verdict.NO_DIFFERENCE, Verdict.INCONCLUSIVE)
        return verdict is Verdict.SLOWER
