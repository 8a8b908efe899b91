"""List facts of each stage: whether it repeats its elements, their spec, bytes and number."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data.batching import Batch
from tfopt_core.data.dissect.walk import TracedFunction, known_cardinality
from tfopt_core.data.functions import changing_ops
from tfopt_core.data.lower import element_spec, looked_at
from tfopt_core.data.parts import PartOfBatch
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.sampling import mean_bytes
from tfopt_core.data.source import Source
from tfopt_core.data.stage import Stage
from tfopt_core.data.stages import in_any_order

# The changing ops of traced functions, by the spec they were traced for.
_CHANGING_OPS: WeakKeyDictionary[Any, dict[str, tuple[str, ...]]] = WeakKeyDictionary()


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
        spec, cardinality = dataset.element_spec, known_cardinality(dataset)
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


def random_ops(plan: DataPlan, index: int) -> tuple[str, ...]:
    """Return the ops of the stage at `index` that may yield something else the next time.

    Random ops, values of variables and assignments to them (Keras' random layers have both),
    prints and Python functions count. A stage that declares itself deterministic is trusted; for
    one that declares the opposite its kind is returned. `functions.side_effects` returns which of
    the ops have side effects.
    """
    stage = plan.stages[index]
    if isinstance(stage, Source) and stage.parts:
        ops = {
            op
            for part in stage.parts
            for i in range(len(part.stages))
            for op in random_ops(part, i)
        }
        return tuple(sorted(ops))
    if stage.deterministic is not None:
        return () if stage.deterministic else (stage.kind,)
    if getattr(stage, "function", None) is None:
        return (stage.kind,)
    return _changing_ops_of(plan, index)


def _changing_ops_of(plan: DataPlan, index: int) -> tuple[str, ...]:
    """Return the `changing_ops` of a stage's function, which is traced once for each spec.

    Every plugin of a stack examines every map, some of them behind several prefixes.
    """
    function = getattr(plan.stages[index], "function", None)
    if isinstance(function, TracedFunction):
        return changing_ops(function.concrete.graph)
    spec = element_spec(plan.upto(index))
    try:
        of_function = _CHANGING_OPS.setdefault(function, {})
    except TypeError:  # the function cannot be hashed or weakly referenced
        return changing_ops(_traced(function, spec))
    key = repr(spec)  # some specs cannot be hashed
    if key not in of_function:
        of_function[key] = changing_ops(_traced(function, spec))
    return of_function[key]


def function_graph(plan: DataPlan, index: int) -> Any:
    """Return the graph of the function of the stage at `index`, traced if necessary.

    :raises Exception: whatever the workload's own function raises while it is traced.
    """
    function = getattr(plan.stages[index], "function", None)
    if isinstance(function, TracedFunction):
        return function.concrete.graph
    return _traced(function, element_spec(plan.upto(index)))


def _traced(function: Any, spec: Any) -> Any:
    import tensorflow as tf

    # tf.data calls a map's function with the elements of a tuple as its arguments
    arguments = spec if isinstance(spec, tuple) else (spec,)
    return tf.function(function).get_concrete_function(*arguments).graph
