"""The state of a measurement: its decisions so far, stored for a resume."""

from __future__ import annotations

from typing import Any, Literal

import attrs
from cattrs import Converter

from tfopt_core.measurement.replaying import Certificate

Length = Literal["full", "steady"]

_converter = Converter()


@attrs.frozen(kw_only=True)
class MeasurementState:
    """The decisions of a measurement so far.

    :param seed: the seed from which the order and the seeds of all rounds are drawn.
    :param length: whether runs train to the end, or stop once their step time is known.
    :param same_length_from: the first round whose runs have this length.
    :param isolating: whether plugins are left out in turn; None until that is decided.
    :param certificate: the certificate of a replay; None until it is made, or if the stack changes
        the algorithm.
    :param resumed: how often the measurement was resumed.
    """

    seed: int
    length: Length = "full"
    same_length_from: int = 0
    isolating: bool | None = None
    certificate: Certificate | None = None
    resumed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return dict(_converter.unstructure(self))

    @classmethod
    def from_dict(cls, data: Any) -> MeasurementState:
        """Return the state that `to_dict` wrote."""
        return _converter.structure(data, cls)
