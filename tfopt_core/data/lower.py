"""From a `DataPlan` to what Keras' `fit` takes."""

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

# What these yield is, apart from its order, what they are given.
LIKE_THEIR_INPUT = (Autotune, Cache, Options, Prefetch, Resident, Shuffle)


def lower(plan: DataPlan) -> Any:
    """The data as `fit` takes it: a `tf.data.Dataset`, or the untouched PyDataset.

    An unchanged plan of a data set or PyDataset lowers to that very object.
    """
    if len(plan.stages) == 1 and plan.source.origin == "pydataset":
        return plan.source.value
    return lower_plan(plan)


def lower_plan(plan: DataPlan) -> Any:
    """A `tf.data.Dataset` of a plan: what it was taken from, as far as that is unchanged."""
    stages, given = plan.lowering_order(), plan.given
    same = 0
    while same < min(len(stages), len(given)) and stages[same] is given[same][0]:
        same += 1
    # of those that came before nothing is made
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
    """A `tf.data.Dataset` of these stages, the source first, all built anew. What a source is put
    together from is a plan of its own, and lowered as such."""
    *_, (_, dataset) = _prefixes(stages, ())
    return dataset


def lowered_prefixes(plan: DataPlan) -> Iterator[tuple[Stage, Any]]:
    """The plan's stages in the order of lowering, each with the data set up to and with it."""
    return _prefixes(plan.lowering_order(), plan.given)


def looked_at(plan: DataPlan) -> Iterator[tuple[Stage, Any]]:
    """The same for looking at element specs and numbers only: stages that change neither are
    left out. A shuffle that is built may draw a seed, and a stage for the device computes all."""
    return _prefixes(plan.lowering_order(), plan.given, left_out=LIKE_THEIR_INPUT)


def element_spec(plan: DataPlan) -> Any:
    """What the plan's elements look like: a structure of `tf.TypeSpec`."""
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
    """The structure of indices with the part that each of them names."""
    if isinstance(layout, dict):
        return {key: _laid_out(item, parts) for key, item in layout.items()}
    if isinstance(layout, tuple):
        items = (_laid_out(item, parts) for item in layout)
        return type(layout)(*items) if hasattr(layout, "_fields") else tuple(items)
    return parts[layout]
