"""Check whether stages of a given data set yield the same elements in the same order each time."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.data.dissect.functions import TracedFunction
from tfopt_core.data.functions import stage_function
from tfopt_core.data.graphs import changing_ops
from tfopt_core.data.ordering import in_any_order
from tfopt_core.data.stages import Stage


def repeats(stages: Sequence[Stage]) -> bool:
    """Return whether all of these stages yield the same each time."""
    return not in_any_order(stages) and all(map(_repeats, stages))


def _repeats(stage: Stage) -> bool:
    function = stage_function(stage)
    if isinstance(function, TracedFunction):
        return not changing_ops(function.concrete.graph)
    return stage.deterministic is True
