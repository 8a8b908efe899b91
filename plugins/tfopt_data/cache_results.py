"""The hybrid cache behind a shuffle: results are kept by the number of their source element.

A tf.data cache keeps elements in the order in which they come, so it must stand before the shuffle,
which then holds computed examples. Where these are too many, the shuffle stays where it is, over
numbered source elements, and the maps behind it look up what they computed before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.data import Map, MapExamples, Source, Stage, element_spec
from tfopt_core.plugins import DataPlan
from tfopt_data.cache_partial import Part
from tfopt_data.prefix import Prefix
from tfopt_data.rewrite import Rewrite


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
    stages: list[Stage] = [_numbered(head.upto(part.cut), part.count)]
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


def _numbered(base: DataPlan, count: int) -> Source:
    """A source of pairs: the number of an element, and the element."""
    numbers = DataPlan((Source(value=(0, count, 1), origin="range", count=count),))
    return Source(value=(numbers, base), origin="zip", count=count, deterministic=True)


def _is_of_one_shape(spec: Any) -> bool:
    import tensorflow as tf

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
        import tensorflow as tf

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
        import tensorflow as tf

        return int(tf.reduce_sum(tf.cast(self._filled, tf.int64)))

    def _look_up(self, number: Any, element: Any) -> Any:
        import tensorflow as tf

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
