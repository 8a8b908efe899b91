"""The state of a measurement: its decisions so far, stored for a resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from cattrs import Converter

from tfopt_core.hooks.card import Equivalence
from tfopt_core.measurement.replaying import Certificate
from tfopt_core.records.variants import plus

Length = Literal["full", "steady"]

_converter = Converter()


@attrs.frozen(kw_only=True)
class AddedStack:
    """The stack of the second contrast: the full one with additions that are not exact.

    :param additions: the plugins that the full stack lacks, or has with other settings.
    :param resolved: the settings of the whole stack, by plugin, in its order.
    :param equivalence: what it does to the mathematics.
    :param certificate: what a replay of it showed; None without one.
    :param why_ended: why it is not measured any more; empty if it is.
    :param first_round: the first round that has a run of it; rounds before it are for a first
        verdict on the stack alone.
    """

    additions: tuple[str, ...]
    resolved: dict[str, dict[str, Any]]
    equivalence: Equivalence
    certificate: Certificate | None = None
    why_ended: str = ""
    first_round: int = 0

    @property
    def variant(self) -> str:
        """The name of its runs."""
        return plus(self.additions)


def additions_to(
    stack: Mapping[str, Mapping[str, Any]], extended: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the plugins of an extended stack that a stack lacks or has with other settings."""
    return tuple(name for name, settings in extended.items() if stack.get(name) != settings)


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
    :param added: the stack of the second contrast; None without one.
    :param settled_after: the number of rounds that the verdict rests on, where rounds of the second
        contrast follow it; None otherwise.
    :param own_budget: whether the budget is tfopt's own: the pairs of a first verdict may exceed it
        then.
    """

    seed: int
    length: Length = "full"
    same_length_from: int = 0
    isolating: bool | None = None
    certificate: Certificate | None = None
    resumed: int = 0
    added: AddedStack | None = None
    settled_after: int | None = None
    own_budget: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return dict(_converter.unstructure(self))

    @classmethod
    def from_dict(cls, data: Any) -> MeasurementState:
        """Return the state that `to_dict` wrote."""
        return _converter.structure(data, cls)
