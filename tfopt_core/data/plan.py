"""`DataPlan`: an input pipeline as an immutable sequence of stages that plugins rewrite."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Literal

import attrs

from tfopt_core.data.batching import Batch
from tfopt_core.data.dissect.apart import taken_apart
from tfopt_core.data.functions import Filter, Interleave, MapBatches, MapExamples, Opaque
from tfopt_core.data.source import Source
from tfopt_core.data.stage import (
    Count,
    ModelStage,
    Parallelism,
    Stage,
    changes,
    counts,
    examples_begin,
)
from tfopt_core.data.stages import Cache, Prefetch, Repeat, Shuffle, Take


@attrs.frozen(eq=False)
class DataPlan:
    """The stages of a pipeline, the source first.

    A plan never changes: each method returns a new plan. An unchanged plan lowers to the object
    that it was made from. `given` are the stages of a `tf.data.Dataset` that was taken apart, each
    with the data set up to that stage: as far as a plan still begins with these stages, it lowers
    to that data set. `read_in_parts` says that the script counts the steps of a pass itself
    (`steps_per_epoch`, `validation_steps`): Keras then stops reading before the data end, or goes
    on with the same iterator in the next pass.
    """

    stages: tuple[Stage, ...]
    given: tuple[tuple[Stage, Any], ...] = attrs.field(default=(), repr=False)
    read_in_parts: bool = False

    # Sources

    @classmethod
    def from_arrays(cls, *arrays: Any) -> DataPlan:
        """Return a plan over arrays, or nested structures of them, that share their first axis.

        `from_arrays(x, y)` and `from_arrays(x, y, sample_weight)` yield tuples, as Keras takes
        them; `from_arrays(x)` yields single examples.

        :raises ValueError: if the arrays differ in length or there are none.
        """
        lengths = {len(leaf) for array in arrays for leaf in _leaves(array)}
        if len(lengths) != 1:
            raise ValueError(f"arrays of different lengths: {sorted(lengths)}")
        value = arrays[0] if len(arrays) == 1 else arrays
        return cls((Source(value=value, origin="arrays", count=lengths.pop()),))

    @classmethod
    def from_dataset(
        cls, dataset: Any, *, deterministic: bool = False, kept: Container[Any] = ()
    ) -> DataPlan:
        """Return a plan of a `tf.data.Dataset`, taken apart into its stages.

        Everything up to a part that tfopt does not understand (a generator, for example) is one
        source that stays as it is; the stages behind it are still taken apart.

        :param deterministic: whether such a source yields the same elements in the same order
            each time; only then may its elements be cached.
        :param kept: shuffles of the data set that are not built anew.
        """
        given = taken_apart(dataset, cls.from_dataset, deterministic=deterministic, kept=kept)
        return cls(tuple(stage for stage, _ in given), given)

    @classmethod
    def from_generator(
        cls, generator: Callable[[], Iterator[Any]], *, signature: Any = None,
        deterministic: bool = False,
    ) -> DataPlan:  # fmt: skip
        """Return a plan over a function that returns a fresh iterator of examples each time.

        :param signature: the `tf.TypeSpec` structure of an example; read from the first eight
            examples where it is None (axes in which they differ become None).
        :raises TypeError: for an iterator, which could be read only once.
        """
        if not callable(generator):
            raise TypeError(
                f"a {type(generator).__name__} can be read only once, but each epoch reads it "
                "again: give the function that makes it"
            )
        source = Source(
            value=generator, origin="generator", signature=signature, deterministic=deterministic
        )
        return cls((source,))

    @classmethod
    def from_pydataset(cls, dataset: Any, *, redrawn: bool = False) -> DataPlan:
        """Return a plan over a `keras.utils.PyDataset`, which yields batches.

        :param redrawn: whether Keras draws the order of the batches anew each epoch.
        """
        source = Source(
            value=dataset, origin="pydataset", count=dataset.num_batches, batched=True,
            deterministic=False, redrawn=redrawn,
        )  # fmt: skip
        return cls((source,))

    # Properties

    @property
    def source(self) -> Source:
        """The first stage."""
        first = self.stages[0]
        assert isinstance(first, Source)
        return first

    @property
    def _count(self) -> Count:
        return counts(self.stages)[-1]

    @property
    def batched(self) -> bool:
        """Whether the plan yields batches."""
        return self._count.batched

    @property
    def batch_size(self) -> int | None:
        """How many examples a batch holds; None if the plan is not batched, or if unknown."""
        return self._count.batch_size

    @property
    def examples(self) -> int | None:
        """How many examples the stages yield before batching, None if unknown.

        For a source that yields batches itself these are the batches.
        """
        return self._count.examples

    @property
    def cardinality(self) -> int | None:
        """How many elements the whole plan yields, batches if it is batched; None if unknown."""
        return self._count.elements

    def find(self, kind: type[Stage]) -> int | None:
        """Return the index of the first stage of this kind, None if there is none."""
        return next((i for i, stage in enumerate(self.stages) if isinstance(stage, kind)), None)

    @property
    def batching(self) -> tuple[int, Batch] | None:
        """The index and the stage that makes the batches of the plan.

        None where tfopt does not see it: no stage does, or later ones make batches of another size.
        """
        found = [(i, stage) for i, stage in enumerate(self.stages) if isinstance(stage, Batch)]
        if not found or not self.batched:
            return None
        place, stage = found[-1]
        made = counts(self.stages)[place].batch_size
        return (place, stage) if made == self.batch_size else None

    @property
    def fills(self) -> bool:
        """Whether the first epoch fills a cache, in a part of a source too."""
        return any(stage.fills for stage in self.stages)

    def describe(self) -> tuple[str, ...]:
        """Return a line for each stage, in the order in which elements pass them."""
        return tuple(stage.describe() for stage in self.lowering_order())

    def describe_change(self, before: DataPlan) -> tuple[str, ...]:
        """Return how this plan differs from an earlier one, a phrase for each stage."""
        return changes(before.lowering_order(), self.lowering_order())

    def lowering_order(self) -> tuple[Stage, ...]:
        """Return the stages in the order in which they are lowered. Prefetches within a given
        pipeline stay in their place; of all others only the last is kept, at the end."""
        movable = [s for s in self.stages if isinstance(s, Prefetch) and not s.inside]
        rest = tuple(stage for stage in self.stages if stage not in movable)
        return (*rest, movable[-1]) if movable else rest

    # Rewriting

    def with_stages(self, stages: Iterable[Stage]) -> DataPlan:
        """Return a plan of these stages that still knows what it was made from."""
        return attrs.evolve(self, stages=tuple(stages))

    def upto(self, index: int) -> DataPlan:
        """Return the plan of the stages before the one that stands at `index`."""
        return self.with_stages(self.stages[:index])

    def insert(self, index: int, *stages: Stage) -> DataPlan:
        """Return a plan with these stages before the one that stands at `index`.

        :raises ValueError: for a place before the source.
        """
        if index < 1:
            raise ValueError("nothing can stand before the source")
        return self.with_stages((*self.stages[:index], *stages, *self.stages[index:]))

    def replace(self, index: int, *stages: Stage) -> DataPlan:
        """Return a plan with these stages in place of the one at `index`."""
        return self.with_stages((*self.stages[:index], *stages, *self.stages[index + 1 :]))

    def without(self, kind: type[Stage]) -> DataPlan:
        """Return a plan without the stages of this kind."""
        return self.with_stages(stage for stage in self.stages if not isinstance(stage, kind))

    def append(self, stage: Stage) -> DataPlan:
        """Return a plan with this stage at the end."""
        return self.with_stages((*self.stages, stage))

    def first(self, count: int) -> DataPlan:
        """Return the plan of the first `count` examples, or batches if the source yields batches.

        They are chosen as early as possible: records of a file before they are decoded and
        shuffled.
        """
        return self.insert(examples_begin(self.stages), Take(count=count))

    def keeping_prefetch(self) -> DataPlan:
        """Return the plan with a prefetch at the end of the given pipeline fixed in its place.

        Stages that an author adds to a given data set come after its prefetch too.
        """
        if not self.given or self.stages[-1] is not self.given[-1][0]:
            return self
        last, dataset = self.given[-1]
        if not isinstance(last, Prefetch) or last.inside:
            return self
        inside = attrs.evolve(last, inside=True)
        given = (*self.given[:-1], (inside, dataset))
        return attrs.evolve(self, stages=(*self.stages[:-1], inside), given=given)

    # Stages that compute with the model

    @property
    def model_stages(self) -> tuple[ModelStage, ...]:
        """The stages that compute with the model of the run."""
        return tuple(stage for stage in self.stages if isinstance(stage, ModelStage))

    def for_model(self, model: Any) -> DataPlan:
        """Return the plan whose stages compute with this model, without those that cannot."""
        if not self.model_stages:
            return self
        found = (
            stage.for_model(model) if isinstance(stage, ModelStage) else stage
            for stage in self.stages
        )
        return self.with_stages(stage for stage in found if stage is not None)

    def without_model(self) -> DataPlan:
        """Return the plan without the stages that compute with the model.

        Stages behind these keep nothing of what those have computed.
        """
        if not self.model_stages:
            return self
        first = self.stages.index(self.model_stages[0])
        behind = (s.emptied() for s in self.stages[first:] if not isinstance(s, ModelStage))
        return self.with_stages((*self.stages[:first], *behind))

    # Building, for authors of workloads

    def _then(self, stage: Stage) -> DataPlan:
        return self.keeping_prefetch().append(stage)

    def map(
        self, function: Callable[..., Any], *, deterministic: bool | None = None,
        parallel: Parallelism = None,
    ) -> DataPlan:  # fmt: skip
        """Apply a function to each example, or to each batch once the plan is batched.

        :param deterministic: None lets tfopt look into the function's graph for random ops.
        :param parallel: how many calls run at once; "auto" is tf.data's AUTOTUNE, None is one.
        """
        kind = MapBatches if self.batched else MapExamples
        return self._then(kind(function=function, deterministic=deterministic, parallel=parallel))

    def filter(
        self, predicate: Callable[..., Any], *, deterministic: bool | None = None
    ) -> DataPlan:
        """Keep the elements for which the predicate is true.

        :param deterministic: as for `map`.
        """
        return self._then(Filter(function=predicate, deterministic=deterministic))

    def shuffle(
        self, buffer_size: int | None = None, *, seed: int | None = None, reshuffle: bool = True
    ) -> DataPlan:
        """Shuffle through a buffer; None takes a buffer for all elements.

        :param reshuffle: whether each epoch has another order.
        """
        return self._then(Shuffle(buffer_size=buffer_size, seed=seed, reshuffle=reshuffle))

    def repeat(self, count: int | None = None) -> DataPlan:
        """Repeat the data, without end by default."""
        return self._then(Repeat(count=count))

    def cache(self) -> DataPlan:
        """Keep the elements in memory once they were computed."""
        return self._then(Cache())

    def batch(self, size: int, *, drop_remainder: bool = False) -> DataPlan:
        """Put `size` examples into one batch; the last one may be smaller, or is dropped."""
        return self._then(Batch(size=size, drop_remainder=drop_remainder))

    def take(self, count: int) -> DataPlan:
        """Keep the first `count` elements."""
        return self._then(Take(count=count))

    def prefetch(self, buffer_size: int | Literal["auto"] = "auto") -> DataPlan:
        """Compute elements ahead of their use.

        :param buffer_size: how many are held ready; "auto" is tf.data's AUTOTUNE.
        """
        return self._then(Prefetch(buffer_size=buffer_size))

    def interleave(
        self,
        function: Callable[..., Any],
        *,
        cycle_length: int | None = None,
        block_length: int = 1,
        parallel: Parallelism = None,
        deterministic: bool | None = None,
    ) -> DataPlan:
        """Read the data sets that the function makes of each element in turn.

        :param cycle_length: how many are read in turn; None leaves that to tf.data, and 1 reads
            them one after another, which is tf.data's flat_map.
        :param block_length: how many elements of each come in a row.
        """
        return self._then(
            Interleave(
                function=function, cycle_length=cycle_length, block_length=block_length,
                parallel=parallel, deterministic=deterministic,
            )
        )  # fmt: skip

    def apply(self, function: Callable[[Any], Any], *, deterministic: bool = False) -> DataPlan:
        """Apply a function from `tf.data.Dataset` to `tf.data.Dataset` as an opaque stage.

        :param deterministic: whether it yields the same elements in the same order each time.
        """
        return self._then(Opaque(function=function, deterministic=deterministic))


def _leaves(structure: Any) -> list[Any]:
    if not isinstance(structure, dict | tuple):
        return [structure]
    parts = structure.values() if isinstance(structure, dict) else structure
    return [leaf for part in parts for leaf in _leaves(part)]
