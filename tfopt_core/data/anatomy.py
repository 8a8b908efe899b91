"""List facts of each stage: whether it repeats its elements, their spec, bytes and number."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.data import dissect
from tfopt_core.data.determinism import random_ops
from tfopt_core.data.lower import looked_at
from tfopt_core.data.ordering import in_any_order
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.sampling import mean_bytes
from tfopt_core.data.stages import Batch, PartOfBatch, Stage


@attrs.frozen(eq=False)
class StageFacts:
    """The facts of one stage.

    `deterministic` says whether it yields the same elements in the same order each time, given
    the same input; `random_ops` names the ops of its function that prevent it. `element_spec`,
    `element_bytes` (the mean of an element) and `cardinality` describe what it yields; the last two
    are None if unknown.
    """

    stage: Stage
    description: str
    deterministic: bool
    random_ops: tuple[str, ...]
    element_spec: Any
    element_bytes: float | None
    cardinality: int | None


def stage_facts(plan: DataPlan, sample: int = 64) -> tuple[StageFacts, ...]:
    """Return the facts of every stage, in the order in which elements pass them.

    :param sample: how many examples may be computed to learn the bytes of an element whose spec
        leaves them open. Nothing with side effects is computed.
    """
    plan = plan.with_stages(plan.lowering_order())
    unordered = in_any_order(plan.stages)
    facts: list[StageFacts] = []
    for index, (stage, dataset) in enumerate(looked_at(plan)):
        ops = random_ops(plan, index)
        spec, cardinality = dataset.element_spec, dissect.known_cardinality(dataset)
        facts.append(
            StageFacts(
                stage=stage,
                description=stage.describe(),
                deterministic=not ops and stage not in unordered,
                random_ops=ops,
                element_spec=spec,
                element_bytes=_bytes(stage, spec, cardinality, facts, plan.upto(index + 1), sample),
                cardinality=cardinality,
            )
        )
    return tuple(facts)


def _bytes(
    stage: Stage,
    spec: Any,
    cardinality: int | None,
    before: list[StageFacts],
    part: DataPlan,
    sample: int,
) -> float | None:
    """Return the mean bytes of an element, which is computed only if the spec leaves them open.

    :param part: the plan up to and with the stage.
    """
    exact = _spec_bytes(spec)
    if exact is not None:
        return exact
    if stage.yields in ("same", "some"):
        return before[-1].element_bytes
    if isinstance(stage, PartOfBatch) and before[-1].element_bytes is not None:
        return before[-1].element_bytes / (1 if stage.index is None else stage.count)
    if type(stage) is Batch:
        return _batch_bytes(stage, cardinality, before[-1])
    if _holds_datasets(spec):
        return None
    sampled = mean_bytes(part, sample)
    return _by_batch_size(spec, part) if sampled is None else sampled


def _by_batch_size(spec: Any, plan: DataPlan) -> float | None:
    """Return the bytes of a mean batch whose examples have one known shape. It serves pipelines
    that must not be run, such as one with a random layer behind the batch."""
    import tensorflow as tf

    leaves = tf.nest.flatten(spec)
    if plan.batch_size is None or any(
        not isinstance(leaf, tf.TensorSpec) or not leaf.shape.rank for leaf in leaves
    ):
        return None
    example = _spec_bytes([tf.TensorSpec(leaf.shape[1:], leaf.dtype) for leaf in leaves])
    if example is None:
        return None
    if plan.examples is None or not plan.cardinality:
        return example * plan.batch_size
    return example * plan.examples / plan.cardinality


def _batch_bytes(stage: Batch, batches: int | None, example: StageFacts) -> float | None:
    """Return the mean bytes of a batch; the last one may be smaller than the others."""
    if example.element_bytes is None:
        return None
    if not batches or example.cardinality is None or stage.drop_remainder:
        return example.element_bytes * stage.size
    return example.element_bytes * example.cardinality / batches


def _spec_bytes(spec: Any) -> float | None:
    import tensorflow as tf

    total = 0
    for leaf in tf.nest.flatten(spec):
        if not isinstance(leaf, tf.TensorSpec) or leaf.dtype in (tf.string, tf.variant):
            return None
        if not leaf.shape.is_fully_defined():
            return None
        total += leaf.shape.num_elements() * leaf.dtype.size
    return float(total)


def _holds_datasets(spec: Any) -> bool:
    import tensorflow as tf

    return any(isinstance(leaf, tf.data.DatasetSpec) for leaf in tf.nest.flatten(spec))
