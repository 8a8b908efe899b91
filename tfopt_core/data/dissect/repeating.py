"""Whether stages out of a given data set yield the same elements in the same order each time."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.data.dissect.functions import Taken
from tfopt_core.data.graphs import changing_ops
from tfopt_core.data.stages import Options, Stage


def repeats(stages: Sequence[Stage]) -> bool:
    """Whether all of these stages do."""
    in_any_order = any(
        isinstance(stage, Options) and stage.options.deterministic is False for stage in stages
    )
    return all(_repeats(stage, in_any_order) for stage in stages)


def _repeats(stage: Stage, in_any_order: bool) -> bool:
    if not keeps_order(stage, in_any_order):
        return False
    function = getattr(stage, "function", None)
    if isinstance(function, Taken):
        return not changing_ops(function.concrete.graph)
    return stage.deterministic is True


def keeps_order(stage: Stage, in_any_order: bool) -> bool:
    """Whether the elements come in the order in which they went in, or always in the same other.

    :param in_any_order: whether the options of the data set leave the order to chance.
    """
    ordered = getattr(stage, "ordered", True)
    parallel = getattr(stage, "parallel", None) is not None
    return not parallel or ordered is True or (ordered is None and not in_any_order)
