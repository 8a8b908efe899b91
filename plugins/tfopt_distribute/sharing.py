"""How the data of a plan are shared out among workers that train one model together.

The stages have the `index` of this worker among `count`. None means all workers, for code that
examines a plan outside of a cluster: the plan then yields the data of a single process.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import (
    NEW_SEED,
    Batch,
    EvenSteps,
    MapExamples,
    Part,
    Shuffle,
    Stage,
    element_spec,
    in_any_order,
    rows_of,
)
from tfopt_core.plugins import DataPlan, PluginRefused, WorkloadError
from tfopt_core.toolkit import tf

ShardPolicy = Literal["batch", "source", "off"]


def shared_plan(plan: DataPlan, policy: ShardPolicy, count: int, rank: int | None) -> DataPlan:
    """The plan of one of `count` workers.

    :param rank: of the worker; None for all of them together, where none is known yet.
    :raises PluginRefused: for data that cannot be shared out in this way.
    """
    if policy == "off" or count == 1:
        return plan
    if plan.source.origin == "pydataset":
        raise PluginRefused(
            "a PyDataset is read by Keras' own workers, which no other process can share; give a "
            'tf.data.Dataset or arrays, or set shard = "off" and have the PyDataset itself read '
            "this worker's part"
        )
    return by_source(plan, count, rank) if policy == "source" else by_batch(plan, count, rank)


def by_batch(plan: DataPlan, count: int, rank: int | None) -> DataPlan:
    """Each worker makes the same global batches and keeps its rows of them.

    Where only maps of single examples stand before the batch, the worker leaves out the others'
    examples before these maps, so that each example is computed once.
    """
    place = _early_place(plan, count)
    if place is None:
        _check_same_order(plan, plan.stages)
        return plan.append(PartOfBatch(count=count, index=rank))
    _check_same_order(plan, plan.stages[:place])
    assert plan.batching is not None
    at, batch = plan.batching
    part = PartOfExamples(
        count=count, index=rank, of=batch.size, drop_remainder=batch.drop_remainder
    )
    plan = plan.replace(at, attrs.evolve(batch, size=_rows(batch.size, count, rank), of=batch.size))
    return plan.insert(place, part)


def by_source(plan: DataPlan, count: int, rank: int | None) -> DataPlan:
    """Each worker gets every `count`-th element, and makes smaller batches of them.

    They are shared out as early as each of them is still trained on by one worker: behind the
    last stage that yields more or fewer than it is given. All workers make as many steps: where
    one has fewer batches, empty ones follow.
    """
    if plan.batching is None:
        raise PluginRefused(
            "the workload's batches are made where tfopt does not see it, so they cannot be made "
            'smaller; set shard = "batch"'
        )
    at, batch = plan.batching
    examples = plan.upto(at).cardinality
    if batch.size % count:
        raise PluginRefused(
            f"batches of {batch.size:,} cannot be shared out evenly among {count} workers; change "
            'workload.batch_size, or set shard = "batch"'
        )
    steps = plan.cardinality
    if examples is None or steps is None:
        raise PluginRefused(
            "the number of examples is unknown, so the workers could make different numbers of "
            "steps and wait for each other for ever; tell it "
            '(tf.data.experimental.assert_cardinality), or set shard = "batch"'
        )
    if examples < count:
        raise PluginRefused(f"there are {examples:,} examples, too few for {count} workers")
    place = 1 + max(_not_one_to_one(plan, 0, at), default=0)
    behind = _not_one_to_one(plan, at, len(plan.stages))
    _check_same_order(plan, plan.stages[:place], mend="give it a seed or ordered results")
    size = batch.size if rank is None else batch.size // count
    shared = plan.replace(at, attrs.evolve(batch, size=size, of=batch.size))
    shared = shared.append(EvenSteps(batches=steps))
    given = plan.upto(behind[0]).cardinality if behind else None
    if given is not None:
        # what repeats or chooses batches must be given as many of them on every worker
        shared = shared.insert(behind[0], EvenSteps(batches=given))
    return shared.insert(place, PartOfSource(count=count, index=rank))


def _not_one_to_one(plan: DataPlan, after: int, before: int) -> list[int]:
    """Return which stages between these two do not yield an element for each that they are given.

    :raises PluginRefused: for one of which it is unknown which elements it makes of a part.
    """
    found = [i for i in range(after + 1, before) if not plan.stages[i].one_to_one]
    for stage in (plan.stages[i] for i in found):
        if isinstance(stage, Part) or (stage.yields == "new" and not isinstance(stage, Batch)):
            raise PluginRefused(
                f'"{stage.describe()}" makes another number of elements of what it is '
                "given, so a share of them would not be each example once; put it into the source "
                '(tf.data.experimental.assert_cardinality behind it does), or set shard = "batch"'
            )
    return found


def in_words(plan: DataPlan) -> str:
    """How the data of a plan are shared out, "" if they are not."""
    return next((stage.describe() for stage in plan.stages if isinstance(stage, Part)), "")


def _early_place(plan: DataPlan, count: int) -> int | None:
    """Before which stage examples can be left out, None where only whole batches can be cut.

    Every worker must get a last batch that is neither empty nor larger than its others, or they
    would make different numbers of steps.
    """
    if plan.batching is None:
        return None
    at, batch = plan.batching
    if not all(stage.neutral for stage in plan.stages[at + 1 :]):
        return None
    place = at
    while plan.stages[place - 1].neutral or isinstance(plan.stages[place - 1], MapExamples):
        place -= 1
    examples = plan.upto(place).cardinality
    computed = [stage for stage in plan.stages[place:at] if isinstance(stage, MapExamples)]
    if type(batch) is not Batch or not computed or examples is None:
        return None
    if any(stage.kept_bytes for stage in computed) or not _can_be_batched(plan.upto(place)):
        return None
    last = 0 if batch.drop_remainder else examples % batch.size
    for rank in range(count):
        most, own = _rows(batch.size, count, rank), _rows(last, count, rank)
        if not most or (last and not 0 < own <= most):
            return None
    return place


def _rows(rows: int, count: int, rank: int | None) -> int:
    """Return how many of these rows are a worker's; all of them without a rank."""
    begin, end = (0, rows) if rank is None else rows_of(rows, count, rank)
    return end - begin


def _can_be_batched(plan: DataPlan) -> bool:
    """Whether the elements are tensors of one known shape, so that any of them fit a batch."""
    return all(
        isinstance(leaf, tf.TensorSpec) and leaf.shape.is_fully_defined()
        for leaf in tf.nest.flatten(element_spec(plan))
    )


def _check_same_order(
    plan: DataPlan,
    stages: tuple[Stage, ...],
    mend: str = 'give it a seed or ordered results, or set shard = "source"',
) -> None:
    """:raises PluginRefused: where these stages may yield another order on each worker."""
    unordered = in_any_order(plan.stages)
    for part in plan.source.parts:
        _check_same_order(part, part.stages, mend)
    for stage in stages:
        drawn = isinstance(stage, Shuffle) and stage.seed == NEW_SEED
        if drawn or stage in unordered:
            why = "draws a new seed on each" if drawn else "yields its elements in any order"
            raise PluginRefused(
                f'"{stage.describe()}" {why}, and workers that see the data in different orders '
                f"would train on some examples twice; {mend}"
            )


@attrs.frozen(kw_only=True, eq=False)
class PartOfBatch(Part, kind="part_of_batch", yields="mapped"):
    """The worker's rows of each batch; none if the batch has too few."""

    def left_of(self, elements: int) -> int:
        return elements

    def lower(self, dataset: Any) -> Any:
        """Return the worker's rows.

        :raises WorkloadError: for batches that have none.
        """
        return dataset if self.index is None else _part_of_batches(dataset, self.count, self.index)

    def describe(self) -> str:
        return f"part of each batch: {self.whose}"


@attrs.frozen(kw_only=True, eq=False)
class PartOfExamples(Part, kind="part_of_examples"):
    """The worker's rows of every `of` examples in a row, which later form a batch, so that nothing
    is computed from the others."""

    of: int
    drop_remainder: bool = False

    def left_of(self, elements: int) -> int:
        whole, rest = divmod(elements, self.of)
        rest = 0 if self.drop_remainder else rest
        each, last = (_rows(rows, self.count, self.index) for rows in (self.of, rest))
        return whole * each + last

    def lower(self, dataset: Any) -> Any:
        """Return the worker's examples: batches are cut and taken apart again, without a function
        call for each example.

        :raises WorkloadError: for examples with a part that has no rows.
        """
        count = int(dataset.cardinality())
        elements = count if count >= 0 else None
        if self.index is None:
            part = dataset if elements is None else dataset.take(self.left_of(elements))
        else:
            batches = dataset.batch(self.of, drop_remainder=self.drop_remainder)
            part = _part_of_batches(batches, self.count, self.index).unbatch()
        if elements is None:
            return part
        return part.apply(tf.data.experimental.assert_cardinality(self.left_of(elements)))

    def describe(self) -> str:
        return f"part of every {self.of:,} examples: {self.whose}"


@attrs.frozen(kw_only=True, eq=False)
class PartOfSource(Part, kind="part_of_source"):
    """Every `count`-th element of the source, beginning with that at `index`."""

    def left_of(self, elements: int) -> int:
        if self.index is None:
            return elements
        return max(0, -((self.index - elements) // self.count))

    def lower(self, dataset: Any) -> Any:
        return dataset if self.index is None else dataset.shard(self.count, self.index)

    def describe(self) -> str:
        return f"part of the source: {self.whose}"


def _part_of_batches(dataset: Any, count: int, index: int) -> Any:
    _check_rows(dataset.element_spec)

    def part_of_batch(*batch: Any) -> Any:
        data = batch if isinstance(dataset.element_spec, tuple) else batch[0]
        return tf.nest.map_structure(lambda part: _rows_of(part, count, index), data)

    return dataset.map(part_of_batch)


def _rows_of(part: Any, count: int, index: int) -> Any:
    """Return the worker's rows of one component of a batch."""
    if part is None:
        return None
    if isinstance(part, tf.SparseTensor):
        shape = part.dense_shape
        begin, end = shape[0] * index // count, shape[0] * (index + 1) // count
        start = tf.concat([[begin], tf.zeros_like(shape[1:])], 0)
        return tf.sparse.slice(part, start, tf.concat([[end - begin], shape[1:]], 0))
    if isinstance(part, tf.RaggedTensor):
        rows = part.nrows()
        return part[rows * index // count : rows * (index + 1) // count]
    # a number where it is known: the shape of the part is then known too
    rows = part.shape[0] or tf.shape(part)[0]
    return part[rows * index // count : rows * (index + 1) // count]


def _check_rows(spec: Any) -> None:
    for leaf in tf.nest.flatten(spec):
        if isinstance(leaf, tf.TensorSpec) and leaf.shape.rank == 0:
            raise WorkloadError(
                f"the batches hold a single {leaf.dtype.name}, which has no rows that workers "
                "could share; give every part of a batch a first axis for its examples"
            )
        if isinstance(leaf, tf.data.DatasetSpec):
            raise WorkloadError(
                "the batches hold data sets, whose rows workers cannot share; give tensors"
            )
