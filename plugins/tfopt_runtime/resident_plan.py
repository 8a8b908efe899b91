"""Where in a data plan all elements can be kept on the device. Pure."""

from __future__ import annotations

from typing import Any

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
    element_spec,
    function_name,
    known_count,
    lower_plan,
    random_ops,
    why_not_gathered,
)
from tfopt_core.plugins import DataPlan, WorkloadError
from tfopt_core.toolkit import tf


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
        if isinstance(stage, MapBatches) and random_ops(plan, plan.stages.index(stage)):
            return Placed(plan, f"{_named(stage)} would draw other random numbers in this loop")
        if stage.neutral or isinstance(stage, Shuffle | Batch | MapBatches):
            behind.append(stage)
            continue
        if isinstance(stage, Cache):
            fixed = _fixed_by_a_cache(plan, behind)
            if fixed:
                return Placed(plan, f'the workload caches behind "{fixed}", whose draws that fixes')
            continue
        if any(not (s.neutral or isinstance(s, Shuffle)) for s in behind) or (
            _shuffled(behind) and not isinstance(stage, MapExamples)
        ):
            return Placed(plan, f'"{stage.describe()}" stands behind "{behind[-1].describe()}"')
        ops = random_ops(plan.with_stages((*head, stage)), len(head))
        if ops:
            return Placed(
                plan, f"{_named(stage)} yields something else each time ({', '.join(ops)})"
            )
        head.append(stage)
    shuffles = [stage for stage in behind if isinstance(stage, Shuffle)]
    if len(shuffles) > 1 and any(stage.reshuffle for stage in shuffles):
        return Placed(plan, "two shuffles stand behind each other, and one draws as it is read")
    reason = why_not_gathered(behind) or _why_not_held(plan.with_stages(head))
    if reason:
        return Placed(plan, reason)
    return Placed(plan.with_stages((*head, Resident(device=device), *behind)))


def why_not_read(plan: DataPlan) -> str:
    """Why what a plan keeps cannot be read as tensors of one shape; "" if it can.

    It is read to find that out if its shapes do not tell, and kept then.
    """
    place = plan.find(Resident)
    assert place is not None
    specs = _leaves(element_spec(plan.upto(place)))
    if all(spec.shape.is_fully_defined() for spec in specs):
        return ""
    try:
        lower_plan(plan.upto(place + 1))
    except WorkloadError as error:
        return str(error)
    return ""


def _why_not_held(head: DataPlan) -> str:
    for spec in _leaves(element_spec(head)):
        if not isinstance(spec, tf.TensorSpec):
            return f"only tensors can be held on the device, not a {spec.value_type.__name__}"
    if not known_count(head):
        return "only data whose number of examples is known can be held on the device"
    return ""


def _leaves(spec: Any) -> list[Any]:
    leaves: list[Any] = tf.nest.flatten(spec)
    return leaves


def _named(stage: Stage) -> str:
    return f'{stage.kind} "{function_name(getattr(stage, "function", stage))}"'


def _fixed_by_a_cache(plan: DataPlan, behind: list[Stage]) -> str:
    """The first of these stages that draws anew each epoch, in words; "" if none does."""
    for stage in behind:
        if not stage.neutral and random_ops(plan, plan.stages.index(stage)):
            return stage.describe()
    return ""


def _shuffled(stages: list[Stage]) -> bool:
    return any(isinstance(stage, Shuffle) for stage in stages)
