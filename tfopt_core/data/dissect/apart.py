"""Take a data set apart into stages, as far as they are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.data.counting import counted
from tfopt_core.data.dissect.repeating import repeats
from tfopt_core.data.dissect.sources import PlanOf, source_of
from tfopt_core.data.dissect.steps import step_of
from tfopt_core.data.dissect.walk import class_name, is_batched, known_cardinality
from tfopt_core.data.graphs import changing_ops
from tfopt_core.data.stages import Map, MapBatches, MapExamples, Prefetch, Source, Stage
from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without

# Data sets that are no stages here, but yield the same each time if their inputs do.
_REPEATING = frozenset(
    [
        "CacheDataset",
        "ParallelInterleaveDataset",
        "_AssertCardinalityDataset",
        "_DenseToRaggedDataset",
        "_DenseToSparseBatchDataset",
        "_GroupByWindowDataset",
        "_RebatchDataset",
        "_RestructuredDataset",
        "_ScanDataset",
        "_UniqueDataset",
    ]
)

Given = tuple[tuple[Stage, Any], ...]


def taken_apart(dataset: Any, plan_of: PlanOf, *, deterministic: bool = False) -> Given:
    """Return the stages of a data set, the source first, each with the data set up to and with it.

    Everything up to the last part that is not known is one opaque source.

    :param plan_of: makes a plan of each data set that the source puts together.
    :param deterministic: whether its author declares that it yields the same each time.
    :raises WorkloadError: if the installed TensorFlow does not show the inputs of a data set.
    """
    missing = why_without("data-sets")
    if missing:
        # not even batches could be recognized
        raise WorkloadError(missing)
    behind: list[tuple[Stage, Any]] = []
    current = dataset
    while True:
        stage, parent = _one_off(current, plan_of, deterministic)
        behind.append((stage, current))
        if parent is None:
            break
        current = parent
    return _named(behind[::-1])


def _one_off(dataset: Any, plan_of: PlanOf, deterministic: bool) -> tuple[Stage, Any]:
    """Return the last stage and the data set that it is made from, None for a source."""
    # private attributes may be missing, or mean something else, in a later TensorFlow
    try:
        return source_of(dataset, plan_of), None
    except Exception:
        pass
    try:
        return step_of(dataset)
    except Exception:
        return _opaque(dataset, plan_of, deterministic), None


def _opaque(dataset: Any, plan_of: PlanOf, deterministic: bool) -> Source:
    return Source(
        value=dataset,
        origin="dataset",
        count=known_cardinality(dataset),
        batched=is_batched(dataset),
        deterministic=deterministic or _repeats(dataset, plan_of),
    )


def _repeats(dataset: Any, plan_of: PlanOf) -> bool:
    """Return whether an opaque data set is known to yield the same each time."""
    try:
        dataset = getattr(dataset, "_impl", dataset)
        if class_name(dataset) not in _REPEATING or why_without("data-repeats"):
            return False
        if getattr(dataset, "_deterministic", "true") != "true":
            return False
        if any(changing_ops(function.function.graph) for function in dataset._functions()):
            return False
        made_from = [taken_apart(part, plan_of) for part in dataset._inputs()]
        return all(repeats([stage for stage, _ in part]) for part in made_from)
    except Exception:  # as above
        return False


def _named(given: Sequence[tuple[Stage, Any]]) -> Given:
    """Return the stages with each map as one of examples or batches, and a free last prefetch."""
    result: list[tuple[Stage, Any]] = []
    for index, (stage, dataset) in enumerate(given):
        if isinstance(stage, Map):
            batched = counted([before for before, _ in result]).batched
            kind = MapBatches if batched else MapExamples
            stage = kind(function=stage.function, parallel=stage.parallel, ordered=stage.ordered)
        if isinstance(stage, Prefetch) and index == len(given) - 1:
            stage = attrs.evolve(stage, inside=False)
        result.append((stage, dataset))
    return tuple(result)
