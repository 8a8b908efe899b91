"""The state of a measurement: its decisions so far, stored so that it can be resumed."""

from __future__ import annotations

from typing import Any, Literal

import attrs
from cattrs import Converter

from tfopt_core.measurement.replaying import Certificate

Length = Literal["full", "steady"]

_converter = Converter()


@attrs.frozen(kw_only=True)
class MeasurementState:
    """What a measurement has decided so far.

    :param seed: draws the order and the seeds of all rounds.
    :param length: whether runs train to the end, or stop once their step time is known.
    :param same_length_from: the round since which runs have this length.
    :param isolating: whether plugins are left out in turn; None until that is decided.
    :param certificate: what a replay of fixed batches showed; None until it was made, or where the
        stack changes the algorithm.
    :param resumed: how often it was stopped and taken up again.
    """

    seed: int
    length: Length = "full"
    same_length_from: int = 0
    isolating: bool | None = None
    certificate: Certificate | None = None
    resumed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON."""
        return dict(_converter.unstructure(self))

    @classmethod
    def from_dict(cls, data: Any) -> MeasurementState:
        """Return the state that `to_dict` wrote."""
        return _converter.structure(data, cls)
