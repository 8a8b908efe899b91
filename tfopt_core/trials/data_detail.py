"""Describe the stages and the memory of a dry build in detail, for `tfopt plan`."""

from __future__ import annotations

from tfopt_core.data import DataPlan, Map, Source
from tfopt_core.data.anatomy import StageFacts, stage_facts
from tfopt_core.data.lower import lower
from tfopt_core.records.dry_build import HeldBytes, MemoryPlan, StageLine, held_by
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import Synchronous, distribution_of
from tfopt_core.workers.telemetry import peak_rss_bytes

# Enough steps to allocate gradients, optimizer state and the kernels' own memory.
STEPS = 4


def stage_lines(plan: DataPlan) -> tuple[StageLine, ...]:
    """Return every stage of a plan that tf.data reads; empty for a PyDataset."""
    if plan.source.origin == "pydataset":
        return ()
    return tuple(_line(facts) for facts in stage_facts(plan))


def memory_plan(built: Built, stages: dict[str, tuple[StageLine, ...]]) -> MemoryPlan:
    """Return the memory that a run will take, from a few steps on one batch.

    The memory of full caches and buffers is computed, so that none has to be filled.
    """
    held: list[HeldBytes] = []
    for split, lines in stages.items():
        held.extend(held_by(split, lines))
    _few_steps(built)
    return MemoryPlan(peak_rss_bytes(), tuple(held))


def _line(facts: StageFacts) -> StageLine:
    import tensorflow as tf

    stage = facts.stage
    return StageLine(
        kind=stage.kind,
        description=facts.description,
        elements=facts.cardinality,
        element_bytes=facts.element_bytes,
        tensors=len(tf.nest.flatten(facts.element_spec, expand_composites=True)),
        repeats=facts.deterministic,
        random_ops=facts.random_ops,
        holds=stage.holds,
        hands_on=stage.hands_on,
        kept_bytes=stage.kept_bytes if isinstance(stage, Map) else 0.0,
        parts=tuple(map(stage_lines, stage.parts)) if isinstance(stage, Source) else (),
    )


def _few_steps(built: Built) -> None:
    """Train on one repeated batch, so that no buffer or cache is filled."""
    import tensorflow as tf

    plan = built.plans["train"]
    kept = [s for s in plan.stages if s.yields != "same" or (s.holds == 0 and not s.fills)]
    data = lower(plan.with_stages(kept))
    if not isinstance(data, tf.data.Dataset):
        built.model.fit(data, steps_per_epoch=STEPS, verbose=0)
        return
    for batch in data.take(1):
        repeated = tf.data.Dataset.from_tensors(batch).repeat(STEPS)
        class_weight = built.workload.class_weight
        distribution = distribution_of(built)
        if isinstance(distribution, Synchronous):
            distribution.install()
            repeated, class_weight = distribution.train_on(repeated), None
        built.model.fit(repeated, class_weight=class_weight, verbose=0)
