"""Where in a data plan all elements can be kept on the device. Pure."""

from __future__ import annotations

import attrs

from tfopt_core.data import (
    Batch,
    Cache,
    MapBatches,
    MapExamples,
    Repeat,
    Resident,
    Shuffle,
    Stage,
    function_name,
    random_ops,
    why_not_gathered,
)
from tfopt_core.plugins import DataPlan


@attrs.frozen(eq=False)
class Placed:
    """A plan with its elements kept, or the plan as it was and the reason."""

    plan: DataPlan
    reason: str = ""


def with_resident(plan: DataPlan, device: str | None = None) -> Placed:
    """The plan with all elements kept behind what is computed the same for each epoch.

    Deterministic maps of examples behind a shuffle are moved before it: the elements stay the
    same, and so does their order. A cache before the place is left out: it would keep them twice.
    """
    source = plan.source
    if source.origin == "pydataset":
        return Placed(plan, "a PyDataset is read by Keras itself, not by tf.data")
    if not source.parts and not source.deterministic:
        return Placed(
            plan, f"the {source.origin} is not known to yield the same examples each time"
        )
    head: list[Stage] = [source]
    behind: list[Stage] = []
    for stage in plan.stages[1:]:
        if isinstance(stage, Repeat):
            return Placed(plan, f'"{stage.describe()}" would be kept as often')
        if stage.neutral or isinstance(stage, Shuffle | Batch | MapBatches):
            behind.append(stage)
            continue
        if isinstance(stage, Cache):
            continue
        if any(not (s.neutral or isinstance(s, Shuffle)) for s in behind) or (
            _shuffled(behind) and not isinstance(stage, MapExamples)
        ):
            return Placed(plan, f'"{stage.describe()}" stands behind "{behind[-1].describe()}"')
        ops = random_ops(plan.with_stages((*head, stage)), len(head))
        if ops:
            name = function_name(getattr(stage, "function", stage))
            return Placed(
                plan,
                f'{stage.kind} "{name}" yields something else each time ({", ".join(ops)}); put '
                "it behind the batches, as a map of batches",
            )
        head.append(stage)
    reason = why_not_gathered(behind)
    if reason:
        return Placed(plan, reason)
    return Placed(plan.with_stages((*head, Resident(device=device), *behind)))


def _shuffled(stages: list[Stage]) -> bool:
    return any(isinstance(stage, Shuffle) for stage in stages)
