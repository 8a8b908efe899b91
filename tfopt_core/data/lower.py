"""Lower a `DataPlan` to the data that Keras' `fit` takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfopt_core.data.batching import Batch, KerasShuffle, gathered
from tfopt_core.data.dissect.walk import known_cardinality
from tfopt_core.data.functions import place_of
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.source import Source
from tfopt_core.data.stage import Stage
from tfopt_core.errors import StageError, TfoptError, describe


def lower(plan: DataPlan) -> Any:
    """Return the data as `fit` takes it: a `tf.data.Dataset`, or the untouched PyDataset.

    An unchanged plan of a data set or PyDataset lowers to that very object.
    """
    if len(plan.stages) == 1 and plan.source.origin == "pydataset":
        return plan.source.value
    return lower_plan(plan)


def lower_plan(plan: DataPlan) -> Any:
    """Return a `tf.data.Dataset` of a plan; an unchanged beginning is the given data set."""
    stages, given = plan.lowering_order(), plan.given
    same = 0
    while same < min(len(stages), len(given)) and stages[same] is given[same][0]:
        same += 1
    # only the last unchanged data set is needed
    dataset = _now(given[same - 1][1]) if same else gathered(stages, static=not given)
    if not same and dataset is not None:
        same = 3  # the arrays, their shuffle and their batches
    before = stages[same - 1] if same else None
    for stage in stages[same:]:
        if isinstance(stage, Batch) and not given:
            # a data set of the workload's own keeps its shapes: no stack is credited for them
            stage = stage.with_static_size(dataset)
        dataset = _with(stage, dataset, before)
        before = stage
    return dataset


def lower_stages(stages: Sequence[Stage]) -> Any:
    """Return a `tf.data.Dataset` of these stages, the source first, all built anew.

    The parts of a source are plans, and are lowered as such.
    """
    dataset = before = None
    for stage in stages:
        dataset = _with(stage, dataset, before)
        before = stage
    return dataset


def looked_at(plan: DataPlan) -> Iterator[tuple[Stage, Any]]:
    """Yield the plan's stages in the order of lowering, each with a data set up to and with it,
    to inspect element specs and counts only.

    Stages that change neither are left out: building a shuffle may draw a seed, and lowering a
    resident stage computes all elements.
    """
    unchanged = True
    dataset = None
    for index, stage in enumerate(plan.lowering_order()):
        unchanged = unchanged and index < len(plan.given) and stage is plan.given[index][0]
        if unchanged:
            dataset = _now(plan.given[index][1])
        elif stage.yields != "same":
            dataset = _with(stage, dataset, None)
        yield stage, dataset


def known_count(plan: DataPlan) -> int | None:
    """Return how many elements tf.data counts in the plan; None if it does not know."""
    *_, (_, dataset) = looked_at(plan)
    return known_cardinality(dataset)


def element_spec(plan: DataPlan) -> Any:
    """Return the element spec of the plan: a structure of `tf.TypeSpec`."""
    *_, (_, dataset) = looked_at(plan)
    return dataset.element_spec


def given_spec(plan: DataPlan) -> Any:
    """Return the element spec of the data that a plan was made from, before any change."""
    return _now(plan.given[-1][1]).element_spec


def _now(dataset: Any) -> Any:
    return dataset() if hasattr(dataset, "cache_info") else dataset  # made on the first call


def _with(stage: Stage, dataset: Any, before: Stage | None) -> Any:
    """Return the data set with a stage behind it.

    :param before: the stage before it.
    :raises StageError: if the stage cannot be built.
    """
    try:
        return _lowered(stage, dataset, before)
    except TfoptError:
        raise
    except Exception as error:
        place = place_of(getattr(stage, "function", None))
        raise StageError(stage, describe(error), place) from error


def _lowered(stage: Stage, dataset: Any, before: Stage | None) -> Any:
    if isinstance(stage, Source):
        return stage.lower(*map(lower_plan, stage.parts))
    if isinstance(stage, KerasShuffle) and before is not None and before.tensors is not None:
        return stage.in_order(before.tensors)
    return stage.lower(dataset)
