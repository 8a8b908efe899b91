"""How far a data plan yields the same elements each time: what a cache may keep."""

from __future__ import annotations

import attrs

from tfopt_core import DataPlan
from tfopt_core.data import (
    Batch,
    Filter,
    Interleave,
    Map,
    Opaque,
    Prefetch,
    Repeat,
    Shuffle,
    Stage,
)
from tfopt_core.data.determinism import random_ops
from tfopt_core.data.stages import function_name


@attrs.frozen(eq=False)
class Prefix:
    """The longest deterministic prefix that a plan can be given.

    `head` are its stages, the source first. `passed` are the shuffles and repeats before which
    maps of `head` were moved: a map of single elements gives the same elements either way.
    `stopped` says what ended the prefix, "" where nothing but batching did.
    """

    head: tuple[Stage, ...]
    passed: tuple[Stage, ...] = ()
    stopped: str = ""

    @property
    def computes(self) -> bool:
        """Whether the prefix does work that a cache would save; arrays alone are in memory."""
        source, *rest = self.head
        work = any(isinstance(stage, Map | Filter | Interleave | Opaque) for stage in rest)
        return work or getattr(source, "origin", "") != "arrays"


def deterministic_prefix(plan: DataPlan) -> Prefix:
    """Walk the plan up to the first stage that may yield something else the next time.

    A map directly behind a reshuffling shuffle, or behind a repeat, is moved before it.
    """
    head: list[Stage] = [plan.source]
    behind: list[Stage] = []
    passed: tuple[Stage, ...] = ()
    stopped = ""
    for stage in plan.stages[1:]:
        if isinstance(stage, Prefetch):
            continue  # lowered last, wherever it stands
        if isinstance(stage, Repeat) or (isinstance(stage, Shuffle) and not stage.deterministic):
            behind.append(stage)
            continue
        if behind and not isinstance(stage, Map):
            if not isinstance(stage, Batch):
                stopped = f'"{stage.describe()}" stands behind "{behind[-1].describe()}"'
            elif any(isinstance(later, Map) for later in plan.stages):
                stopped = "what follows is computed from batches that are shuffled anew"
            break
        # looked at on top of the prefix: its elements are the same there, and no shuffle is
        # built for it, which would count the examples and draw a seed
        ops = random_ops(DataPlan((*head, stage)), len(head))
        if ops:
            stopped = _said(stage, ops)
            break
        if behind:
            passed = tuple(behind)
        head.append(stage)
    while len(head) > 1 and isinstance(head[-1], Batch | Shuffle):
        head.pop()  # putting examples together is cheap, so it may stand behind the cache
    return Prefix(tuple(head), passed, stopped)


def _said(stage: Stage, ops: tuple[str, ...]) -> str:
    name = function_name(getattr(stage, "function", stage))
    if ops == (stage.kind,):
        return f'{stage.kind} "{name}" is not known to be deterministic'
    return f'{stage.kind} "{name}" yields something else each time (op {", ".join(ops)})'
