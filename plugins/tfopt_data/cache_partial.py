"""The hybrid cache: as many elements as fit are kept in memory, the others are computed anew.

A tf.data cache keeps elements in the order in which they come, so it must stand before the shuffle,
which then holds computed examples. Where these are too many, the shuffle stays where it is, over
numbered source elements, and the maps behind it look up what they computed before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.data import (
    Batch,
    Cache,
    Map,
    MapExamples,
    Skip,
    Source,
    Stage,
    Take,
    element_spec,
    lower_plan,
    overhead_bytes,
)
from tfopt_core.plugins import DataPlan
from tfopt_core.toolkit import size_in_words, tf
from tfopt_data.cache_storage import SAMPLE_ELEMENTS, element_bytes
from tfopt_data.prefix import Prefix
from tfopt_data.rewrite import Rewrite


@attrs.frozen(eq=False)
class Part:
    """How much of what a deterministic plan yields can be kept.

    Its work on single elements begins at the stage `cut`; before it there are `count` elements
    (None where that is unknown), of which the first `fitting` are kept. Each of them becomes
    `each_bytes`, and no more than `budget_bytes` may be held.
    """

    cut: int
    count: int | None
    fitting: int
    each_bytes: float
    budget_bytes: float

    @property
    def whole(self) -> bool:
        """Whether all of it fits."""
        return self.count is not None and self.count <= self.fitting

    def describe(self) -> str:
        """The figures: `30 of 100 elements, about 23 KiB, the others streamed`."""
        of = "first elements" if self.count is None else f"of {self.count:,} elements"
        size = size_in_words(self.fitting * self.each_bytes)
        return f"{self.fitting:,} {of}, about {size}, the others streamed"


def fitting_part(head: DataPlan, budget_bytes: float) -> Part | str:
    """How much of what the plan yields fits into the budget, or why no part can be kept.

    A source element costs what becomes of it, so a sample of the first ones tells how many fit.
    """
    cut, multiple = _cut(head.stages)
    if not any(stage.computes for stage in head.stages[cut:]):
        return "there is no work on single elements that keeping a part would save"
    each = _bytes_each(head, cut, multiple)
    if each is None:
        return "the first elements yield nothing, so their size is unknown"
    part = Part(
        cut=cut,
        count=head.upto(cut).cardinality,
        fitting=int(budget_bytes / each) // multiple * multiple,
        each_bytes=each,
        budget_bytes=budget_bytes,
    )
    if part.fitting == 0 and not part.whole:
        few = "one element" if multiple == 1 else f"a batch of {multiple:,} elements"
        return f"not even {few} of {size_in_words(each)} fits into {size_in_words(budget_bytes)}"
    return part


def hybrid_source(head: DataPlan, part: Part) -> Source:
    """A source that yields what the plan yields, in the same order: the first elements from a
    cache in memory, the others computed each time."""
    base, work = head.stages[: part.cut], head.stages[part.cut :]
    kept = head.with_stages((*base, Take(count=part.fitting), *work, Cache()))
    streamed = head.with_stages((*base, Skip(count=part.fitting), *work))
    return Source(
        value=(kept, streamed),
        origin="concatenate",
        count=head.cardinality,
        batched=head.batched,
        deterministic=True,
    )


def _cut(stages: tuple[Stage, ...]) -> tuple[int, int]:
    """Where the work on single elements begins, and by which number their count must divide.

    f(first elements) + f(the others) = f(all of them) holds for maps, filters and the like; for
    batches too where the number of elements before them is a multiple of their size.
    """
    cut, multiple, batched = len(stages), 1, False
    for index in range(len(stages) - 1, 0, -1):
        stage = stages[index]
        if isinstance(stage, Batch):
            multiple, batched = multiple * stage.size, True
        elif not stage.elementwise or (batched and stage.yields != "mapped"):
            break
        cut = index
    return cut, multiple


def _bytes_each(head: DataPlan, cut: int, multiple: int) -> float | None:
    """What becomes of one element at the cut, in bytes of memory; None if nothing does."""
    sample = math.ceil(SAMPLE_ELEMENTS / multiple) * multiple
    taken = head.with_stages((*head.stages[:cut], Take(count=sample), *head.stages[cut:]))
    yielded = sum(1 for _ in lower_plan(taken))
    there = sum(1 for _ in lower_plan(taken.upto(cut + 1)))
    if not yielded:
        return None
    return yielded * (element_bytes(taken) + overhead_bytes(taken)) / there


def with_kept_results(plan: DataPlan, prefix: Prefix, part: Part, heavy: str) -> Rewrite:
    """The plan whose deterministic maps keep their results for the first elements of the source.

    Elements and their order stay the same. The results are kept in memory that is taken as the
    first epoch fills it.

    :param heavy: why no cache may stand before the shuffle, for the reason if this cannot be done.
    """
    head = plan.with_stages(prefix.head)
    work = prefix.head[part.cut :]
    if part.count is None or not all(isinstance(stage, MapExamples) for stage in work):
        return Rewrite(plan, reason=heavy)
    spec = element_spec(head)
    if not _is_of_one_shape(spec):
        return Rewrite(plan, reason=f"{heavy}; only examples of one shape can be kept behind it")
    kept = _Kept(spec, part.fitting, [stage.function for stage in work if isinstance(stage, Map)])
    last = work[-1]
    assert isinstance(last, MapExamples)
    look_up = MapExamples(
        function=kept.function,
        deterministic=True,
        parallel=last.parallel,
        ordered=last.ordered,
        kept_bytes=part.fitting * part.each_bytes,
    )
    numbers = Source(value=(0, part.count, 1), origin="range", count=part.count)
    # pairs: the number of an element, and the element
    pairs = (DataPlan((numbers,)), head.upto(part.cut))
    stages: list[Stage] = [Source(value=pairs, origin="zip", count=part.count, deterministic=True)]
    for stage in plan.stages:
        if stage is last:
            stages.append(look_up)
        elif stage not in prefix.head:
            stages.append(stage)
    return Rewrite(
        plan.with_stages(stages),
        done=f"results in memory in part: {part.describe()}, in {last.describe()}",
        confirmed=lambda dataset: kept.count() > 0,
    )


def _is_of_one_shape(spec: Any) -> bool:
    return all(
        isinstance(leaf, tf.TensorSpec)
        and leaf.shape.is_fully_defined()
        and (leaf.dtype.is_integer or leaf.dtype.is_floating or leaf.dtype.is_bool)
        for leaf in tf.nest.flatten(spec)
    )


class _Kept:
    """The results of some functions of one element, called one after another.

    :param spec: the structure of a result.
    :param fitting: results are kept for the elements of a lower number.
    """

    def __init__(self, spec: Any, fitting: int, functions: list[Callable[..., Any]]) -> None:
        self._spec, self._fitting, self._functions = spec, fitting, functions
        with tf.device("/cpu:0"):
            self._filled = tf.Variable(tf.zeros([fitting], tf.bool), trainable=False)
            self._results = [
                # memory that was not written to is not taken
                tf.Variable(
                    tf.raw_ops.Empty(shape=[fitting, *leaf.shape], dtype=leaf.dtype, init=False),
                    trainable=False,
                )
                for leaf in tf.nest.flatten(spec)
            ]

        def look_up(number: Any, element: Any) -> Any:
            return self._look_up(number, element)

        look_up.__qualname__ = " and ".join(
            getattr(function, "__qualname__", type(function).__name__) for function in functions
        )
        self.function = look_up

    def count(self) -> int:
        """How many results are kept by now."""
        return int(tf.reduce_sum(tf.cast(self._filled, tf.int64)))

    def _look_up(self, number: Any, element: Any) -> Any:
        def computed() -> list[Any]:
            result = element
            for function in self._functions:
                result = function(*result) if isinstance(result, tuple) else function(result)
            tf.nest.assert_same_structure(self._spec, result)
            return [
                tf.ensure_shape(tf.convert_to_tensor(leaf), one.shape)
                for leaf, one in zip(
                    tf.nest.flatten(result), tf.nest.flatten(self._spec), strict=True
                )
            ]

        def kept() -> list[Any]:
            return [tf.gather(results, number) for results in self._results]

        def keep() -> list[Any]:
            leaves = computed()
            writes = [
                results.scatter_nd_update([[number]], leaf[None]).op
                for results, leaf in zip(self._results, leaves, strict=True)
            ]
            # another call must not find it filled before it is
            with tf.control_dependencies(writes):
                filled = self._filled.scatter_nd_update([[number]], [True])
            with tf.control_dependencies([filled.op]):
                return [tf.identity(leaf) for leaf in leaves]

        def among_the_kept() -> Any:
            return tf.cond(tf.gather(self._filled, number), kept, keep)

        leaves = tf.cond(number < self._fitting, among_the_kept, computed)
        return tf.nest.pack_sequence_as(self._spec, leaves)
