"""What Python yields: the elements of an epoch, read and checked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, Repeat, Source, Stage, Take, element_spec
from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import np, tf
from tfopt_data.kept_rows import RowBlocks, can_be_rows, read_ahead

# Elements that wait in the queue of a PyDataset with several workers.
AHEAD = 2
# Examples of a data set that are read at once, which takes half the time of one by one.
TOGETHER = 256


@attrs.frozen(eq=False)
class PythonSource:
    """The source of a plan, as far as an epoch reads it.

    :param limit: elements of an epoch, None for all that there are.
    :param goes_on: whether an epoch begins where the one before has ended.
    :param restarts: whether the source is read again once it has ended.
    :param behind: the stages of the plan that work on what was read.
    :param types: of the leaves of an element, where tf.data converts what Python yields to them.
    """

    source: Source
    limit: int | None
    goes_on: bool
    behind: tuple[Stage, ...]
    types: tuple[Any, ...] | None = None
    restarts: bool = False

    @property
    def name(self) -> str:
        """What yields the elements, in words."""
        value = self.source.value
        if self.source.origin == "pydataset":
            return f'the PyDataset "{type(value).__name__}"'
        if self.source.origin == "generator":
            return f'the generator "{getattr(value, "__qualname__", type(value).__name__)}"'
        if self.source.read_once:
            return "the generator that fit is given"
        return "the data set that tfopt cannot look into"

    @property
    def in_blocks(self) -> bool:
        """Whether what is read are blocks of `TOGETHER` examples, not single ones. Of data that go
        on, that would be more than an epoch has."""
        source = self.source
        if source.origin != "dataset" or source.batched or self.goes_on or self.limit is not None:
            return False
        return can_be_rows(source.value.element_spec, batched=False)

    def epochs(self) -> Iterator[Iterator[Any]]:
        """Yield epochs without end, each an iterator over its elements as NumPy structures.

        Each must be read before the next is taken.
        """
        if self.goes_on:
            elements = self._passes() if self.restarts else self.elements()
            while True:
                yield islice(elements, self.limit)
        while True:
            yield islice(self.elements(), self.limit)

    def _passes(self) -> Iterator[Any]:
        while True:
            ended = True
            for element in self.elements():
                ended = False
                yield element
            if ended:
                return

    def elements(self) -> Iterator[Any]:
        """Yield the elements of a source that is read from its begin."""
        value = self.source.value
        match self.source.origin:
            case "pydataset":
                return _batches(value, self.limit)
            case "generator":
                return iter(value())
        if self.in_blocks:
            value = value.batch(TOGETHER).prefetch(1)
        return iter(value.as_numpy_iterator())


def python_source(plan: DataPlan, steps_per_epoch: int | None) -> PythonSource | str:
    """Return what a plan reads from Python in an epoch, or why it cannot be materialized.

    :param steps_per_epoch: batches of an epoch where `fit` was asked for them, None for all.
    """
    source, behind = plan.source, plan.stages[1:]
    if source.origin not in ("pydataset", "generator", "dataset"):
        return f"no Python yields the examples: {source.describe()}"
    if source.origin == "dataset" and source.value is None:
        return "the arrays are no dense ones, whose batches Keras makes"
    if source.origin == "pydataset" and source.count is None:
        return "the PyDataset does not say how many batches it has"
    limit, goes_on = None, source.read_once
    while (place := _leading_take(behind)) is not None:
        take = behind[place]
        assert isinstance(take, Take)
        if take.count >= 0:
            limit = take.count if limit is None else min(limit, take.count)
        # core ends the epochs of data that go on; the workload's own take begins anew
        given = [stage for stage, _ in plan.given]
        goes_on = goes_on or (source.origin == "dataset" and take not in given)
        behind = (*behind[:place], *behind[place + 1 :])
    restarts = False
    if limit is None and source.origin == "dataset" and plan.cardinality is None:
        limit = _elements_of(steps_per_epoch, source, behind)
        if limit is None and steps_per_epoch is not None:
            return "how many of its examples an epoch takes is unknown"
        goes_on = goes_on or limit is not None
        restarts = any(isinstance(stage, Repeat) for stage in behind)
    elif source.origin == "pydataset" and steps_per_epoch not in (None, source.count):
        return f"fit takes {steps_per_epoch:,} of the PyDataset's {source.count:,} batches an epoch"
    if goes_on and limit is None:
        return "the generator is running and has no known end"
    early = [stage for stage in behind if stage.stops_early and not isinstance(stage, Batch)]
    if limit is None and source.origin != "pydataset" and early:
        return f'"{early[0].describe()}" may end an epoch of data that have no end'
    types = None
    if source.origin == "generator":
        types = tuple(spec.dtype.as_numpy_dtype for spec in _specs(plan))
    return PythonSource(source, limit, goes_on, behind, types, restarts)


def _elements_of(steps: int | None, source: Source, behind: tuple[Stage, ...]) -> int | None:
    """Return how many elements of a source make so many batches; None if that is unknown."""
    if steps is None or source.batched:
        return steps
    # where core has the epochs end, it takes as many
    ends = [stage for stage in behind if isinstance(stage, Take) and stage.count == steps]
    counts = [
        stage for stage in behind
        if not stage.one_to_one and not isinstance(stage, Repeat) and stage not in ends
    ]  # fmt: skip
    if len(counts) == 1 and isinstance(counts[0], Batch):
        return steps * counts[0].size
    return None


def _specs(plan: DataPlan) -> list[Any]:
    specs = tf.nest.flatten(element_spec(plan.upto(1)))
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        raise PluginRefused("only tensors can be materialized; leave it out of the stack")
    return list(specs)


def _leading_take(stages: tuple[Stage, ...]) -> int | None:
    """Return the place of a take that nothing stands before but neutral stages."""
    for place, stage in enumerate(stages):
        if isinstance(stage, Take):
            return place
        if not stage.neutral:
            return None
    return None


def _batches(pydataset: Any, limit: int | None) -> Iterator[Any]:
    """Read an epoch as Keras does, in the PyDataset's own order and by its number of workers."""
    count = pydataset.num_batches
    numbers = range(count if limit is None else min(count, limit))
    pydataset.on_epoch_begin()
    workers = getattr(pydataset, "workers", 1) or 1
    if workers == 1:
        yield from (pydataset[number] for number in numbers)
    else:
        given = ((number,) for number in numbers)
        yield from read_ahead(pydataset.__getitem__, given, workers, AHEAD * workers)
    pydataset.on_epoch_end()


class Rows(RowBlocks):
    """The elements of an epoch, checked to be such as can be kept: their leaves and their rows.

    An example has one row, a batch as many as it holds examples. Iterating reads the epoch.

    :raises PluginRefused: for elements of different structure, type or shape, and for batches of
        different size before the last.
    """

    def __init__(self, python: PythonSource, epoch: Iterator[Any]) -> None:
        self._python, self._epoch, self._blocks = python, epoch, python.in_blocks
        self.row_bytes = 0

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the leaves of each element, each an array whose first axis are the rows."""
        ended = None
        for number, element in enumerate(self._epoch):
            element = _as_tuples(element, lists=self._python.types is None)
            flat = tf.nest.flatten(element)
            types = self._python.types or (None,) * len(flat)
            leaves = [
                self._rows_of(leaf, dtype, number) for leaf, dtype in zip(flat, types, strict=True)
            ]
            lengths = {len(leaf) for leaf in leaves}
            if len(lengths) != 1:
                self._refuse(number, "holds arrays of different lengths")
            rows = lengths.pop()
            specs = [(leaf.dtype, leaf.shape[1:]) for leaf in leaves]
            if self.structure is None:
                self.structure, self.specs = element, specs
                self.batch_size = 1 if self._blocks else rows
                self.row_bytes = sum(leaf[:1].nbytes for leaf in leaves)
            elif specs != self.specs or not _alike(element, self.structure):
                self._refuse(number, "has another shape or type than the first")
            if ended is not None:
                self._refuse(ended, f"is smaller than the first, of {self.batch_size} examples")
            assert self.batch_size is not None
            if rows > self.batch_size and not self._blocks:
                self._refuse(number, f"is larger than the first, of {self.batch_size} examples")
            if rows < self.batch_size:
                ended = number
            self.count += rows
            yield leaves
        if not self.count:
            raise PluginRefused(f"{self._python.name} yields nothing")

    def _rows_of(self, leaf: Any, dtype: Any, number: int) -> Any:
        if leaf is None:
            self._refuse(number, "holds None")
        if dtype is None and not isinstance(leaf, np.ndarray):
            leaf = tf.convert_to_tensor(leaf).numpy()  # a list of floats is float32, as in tf.data
        array = np.asarray(leaf, dtype)
        if array.dtype.hasobject or array.dtype.kind in "US":
            self._refuse(number, f"holds what is no array of numbers, a {type(leaf).__name__}")
        if not self._python.source.batched and not self._blocks:
            return array[None]
        if not array.ndim:
            self._refuse(number, "holds a single number")
        return array

    def _refuse(self, number: int, why: str) -> None:
        unit = "batch" if self._python.source.batched else "example"
        raise PluginRefused(
            f"{unit} {number:,} of {self._python.name} {why}; leave materialize out of the stack"
        )


def _alike(element: Any, other: Any) -> bool:
    try:
        tf.nest.assert_same_structure(element, other)
    except (TypeError, ValueError):
        return False
    return True


def _as_tuples(element: Any, *, lists: bool) -> Any:
    """Return the structure without lists: Keras reads them as tuples, tf.data as arrays.

    :param lists: whether they are read as tuples.
    """
    if isinstance(element, dict):
        return {key: _as_tuples(item, lists=lists) for key, item in element.items()}
    if isinstance(element, list) and not lists:
        return np.asarray(element)
    if isinstance(element, list | tuple) and not hasattr(element, "_fields"):
        return tuple(_as_tuples(item, lists=lists) for item in element)
    return element
