"""Lower a `DataPlan` to the data that Keras' `fit` takes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from tfopt_core.data import gathered, later
from tfopt_core.data.building import built, of_static_size
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.reading import read
from tfopt_core.data.stages import (
    Autotune,
    Cache,
    Options,
    Prefetch,
    Resident,
    Shuffle,
    Source,
    Stage,
)

# Stages that yield the elements of their input, perhaps in another order.
LIKE_THEIR_INPUT = (Autotune, Cache, Options, Prefetch, Resident, Shuffle)


def lower(plan: DataPlan) -> Any:
    """Return the data as `fit` takes them: a `tf.data.Dataset`, or the unchanged PyDataset.

    An unchanged plan of a data set or PyDataset lowers to that very object.
    """
    if len(plan.stages) == 1 and plan.source.origin == "pydataset":
        return plan.source.value
    return lower_plan(plan)


def lower_plan(plan: DataPlan) -> Any:
    """Return a `tf.data.Dataset` of a plan, reusing the given data set as far as it is
    unchanged."""
    stages, given = plan.lowering_order(), plan.given
    same = 0
    while same < min(len(stages), len(given)) and stages[same] is given[same][0]:
        same += 1
    # only the last unchanged data set is needed
    dataset = later.now(given[same - 1][1]) if same else None
    if not same and gathered.can_be(stages):
        dataset = gathered.batches(stages)
        same = gathered.STAGES
    for stage in stages[same:]:
        if isinstance(stage, Source):
            dataset = _source(stage)
        else:
            # a data set of the workload's own keeps its shapes: no stack is credited for them
            dataset = built(dataset, stage if given else of_static_size(stage, dataset))
    return dataset


def lower_stages(stages: Sequence[Stage]) -> Any:
    """Return a new `tf.data.Dataset` of these stages, the source first. The parts of a source are
    plans of their own, and are lowered as such."""
    *_, (_, dataset) = _prefixes(stages, ())
    return dataset


def lowered_prefixes(plan: DataPlan) -> Iterator[tuple[Stage, Any]]:
    """Yield the plan's stages in the order of lowering, each with the data set up to it."""
    return _prefixes(plan.lowering_order(), plan.given)


def looked_at(plan: DataPlan) -> Iterator[tuple[Stage, Any]]:
    """Yield the same for reading element specs and cardinalities only.

    Stages that change neither are left out: building a shuffle may draw a seed, and a stage for the
    device would compute all elements.
    """
    return _prefixes(plan.lowering_order(), plan.given, left_out=LIKE_THEIR_INPUT)


def element_spec(plan: DataPlan) -> Any:
    """Return the structure of `tf.TypeSpec` of the plan's elements."""
    *_, (_, dataset) = looked_at(plan)
    return dataset.element_spec


def _prefixes(
    stages: Sequence[Stage],
    given: Sequence[tuple[Stage, Any]],
    left_out: tuple[type[Stage], ...] = (),
) -> Iterator[tuple[Stage, Any]]:
    unchanged = True
    dataset = None
    for index, stage in enumerate(stages):
        unchanged = unchanged and index < len(given) and stage is given[index][0]
        if unchanged:
            dataset = later.now(given[index][1])
        elif isinstance(stage, Source):
            dataset = _source(stage)
        elif not isinstance(stage, left_out):
            dataset = built(dataset, stage)
        yield stage, dataset


def _source(source: Source) -> Any:
    import tensorflow as tf

    if source.origin not in ("zip", "concatenate"):
        return read(source)
    parts = [lower_plan(part) for part in source.parts]
    if source.origin == "concatenate":
        return functools.reduce(lambda first, second: first.concatenate(second), parts)
    if source.layout is None:
        return tf.data.Dataset.zip(tuple(parts))
    return tf.data.Dataset.zip(_laid_out(source.layout, parts))


def _laid_out(layout: Any, parts: Sequence[Any]) -> Any:
    """Return the structure of indices with each index replaced by its part."""
    if isinstance(layout, dict):
        return {key: _laid_out(item, parts) for key, item in layout.items()}
    if isinstance(layout, tuple):
        items = (_laid_out(item, parts) for item in layout)
        return type(layout)(*items) if hasattr(layout, "_fields") else tuple(items)
    return parts[layout]
