"""The data of a script's `fit`, as data plans that plugins can rewrite."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, Prefetch, Source
from tfopt_core.data.batching import KerasShuffle
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower, lower_stages
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.stack import Stack
from tfopt_core.lazy import keras, np, tf
from tfopt_core.scripts.call import FitCall
from tfopt_core.training.input.shuffle_draws import ShuffleDraws
from tfopt_core.training.input.sources import first_batches


@attrs.define(eq=False)
class FitData:
    """The data of one call of `fit`.

    :param reads: whether to read generators here, to rewrite or inspect the data; Keras can then
        no longer read them itself.
    :param seed: the seed for shuffles of arrays, if a plugin changes the plan.
    :param draws: of the shuffles in the script's process.
    :param counted: whether it counts the iterators over the data, not those of a strategy.
    """

    call: FitCall
    seed: int
    draws: ShuffleDraws
    reads: bool = False
    counted: bool = True
    _of_weighed_batches: Any = attrs.field(default=None, init=False)

    def check(self) -> None:
        """Check the arguments of the call as Keras does; it would not see all of them in the data
        of a stack.

        :raises ValueError: for arguments that Keras refuses.
        """
        if not isinstance(self.call.splits["train"][0], types.GeneratorType):
            self._adapter("train")  # a running generator is checked when it is read

    def in_run(
        self, run: RunContext, own: Mapping[str, DataPlan], plans: Mapping[str, DataPlan],
        stack: Stack,
    ) -> RunContext:  # fmt: skip
        """Return the run with the data of these plans, and what is known of their batches.

        :param own: the plans of the script's own data: unchanged ones are read as they are.
        """

        def lowered(split: str) -> Any:
            with stack.blamed("build_dataset"):
                data = lower(plans[split])
            if unchanged(plans[split], own[split]):
                return data
            # in the place of the script's own
            given = self.call.splits[split][0]
            # none where a replay has cut the data short
            by = ["", *(one.plugin for one in stack.all_changes if one.split == split)][-1]
            self.draws.link(given, data, by)
            return self.draws.kept(given, plans[split].describe(), data, by)

        datasets = LoweredData(plans, lowered)
        run = attrs.evolve(run, datasets=datasets)
        if unchanged(plans["train"], own["train"]):
            unread = own["train"].source.origin == "pydataset" or "train" in self.call.readers
            spec = None if unread else self._spec(own["train"].source, datasets)
            return attrs.evolve(run, element_spec=spec)
        train = datasets["train"]
        if not isinstance(train, tf.data.Dataset):
            return run
        steps = int(train.cardinality())
        if self.call.steps_per_epoch is not None:
            steps = self.call.steps_per_epoch
        return attrs.evolve(
            run,
            element_spec=train.element_spec,
            steps_per_epoch=steps if steps > 0 else None,
            batch_size=plans["train"].batch_size,
        )

    def _spec(self, source: Source, datasets: Mapping[str, Any]) -> Any:
        """Return the spec of a batch, for arrays without making a data set of them."""
        given = self.call.splits["train"][0]
        if isinstance(given, tf.data.Dataset) or source.origin != "arrays":
            return datasets["train"].element_spec
        return tf.nest.map_structure(
            lambda array: tf.TensorSpec((None, *array.shape[1:]), array.dtype), source.value
        )

    def plan(self, split: str) -> DataPlan:
        """Return a new data plan of a split. Unchanged, it is lowered to what Keras reads."""
        steps = "steps_per_epoch" if split == "train" else "validation_steps"
        read_in_parts = self.call.arguments[steps] is not None
        return attrs.evolve(self._plan(split), read_in_parts=read_in_parts)

    def _plan(self, split: str) -> DataPlan:
        from keras.src.trainers.data_adapters import array_data_adapter

        x, *_ = parts = self.call.splits[split]
        if isinstance(x, tf.data.Dataset):
            kept = self.draws.begun(x) if self.counted else frozenset(walk.reshuffling(x))
            return DataPlan.from_dataset(x, kept=kept)
        if isinstance(x, keras.utils.PyDataset):
            redrawn = split == "train" and bool(self.call.arguments["shuffle"])
            return DataPlan.from_pydataset(self._weighed(split), redrawn=redrawn)
        if array_data_adapter.can_convert_arrays(parts):
            return self._of_arrays(split)
        # the reader of a generator takes its first batch: make it once, and only if needed
        reader = functools.cache(lambda: self._adapter(split).get_tf_dataset())
        reader = self.call.readers.setdefault(split, reader)
        return _of_generator(reader()) if self.reads else _in_one_piece(reader)

    def first(self, split: str, plan: DataPlan, batches: int) -> DataPlan:
        """Return the plan of a split with at most so many batches in a pass, of a `tf.data.Dataset`
        whose steps are not given; of other data the whole plan."""
        known = self.batches(split)
        is_dataset = isinstance(self.call.splits[split][0], tf.data.Dataset)
        if plan.read_in_parts or not is_dataset or (known is not None and known <= batches):
            return plan
        return first_batches(plan, batches, plan.batch_size or 1)

    def steps_per_epoch(self) -> int | None:
        """Return the steps of an epoch of the script's own data; None if unknown."""
        steps = self.call.steps_per_epoch
        return self.batches("train") if steps is None else steps

    def batches(self, split: str) -> int | None:
        """Return how many batches Keras counts in the script's own data; None if it does not."""
        x = self.call.splits[split][0]
        if isinstance(x, tf.data.Dataset):
            return int(x.cardinality()) if int(x.cardinality()) >= 0 else None
        if isinstance(x, keras.utils.PyDataset):
            return None if x.num_batches is None else int(x.num_batches)
        return self.plan(split).cardinality

    @property
    def class_weight(self) -> Any:
        """The weights of the classes, where the plan of the training data lacks them.

        Keras weighs a `tf.data.Dataset` by a map, which fails for a class without a weight, and
        other data as it reads them, such a class by 1.
        """
        given = isinstance(self.call.splits["train"][0], tf.data.Dataset)
        return self.call.arguments["class_weight"] if given else None

    def _weighed(self, split: str) -> Any:
        """Return the PyDataset of a split, for training with the weights of the classes in its
        batches."""
        dataset = self.call.splits[split][0]
        if split != "train" or self.call.arguments["class_weight"] is None:
            return dataset
        if self._of_weighed_batches is None:
            self._of_weighed_batches = _weighed_batches(dataset, self._adapter(split))
        return self._of_weighed_batches

    def _adapter(self, split: str) -> Any:
        """Return what Keras reads the split with.

        :raises ValueError: for arguments that Keras refuses.
        """
        from keras.src.trainers.data_adapters import get_data_adapter

        given, (x, y, weight) = self.call.arguments, self.call.splits[split]
        train, is_dataset = split == "train", isinstance(x, tf.data.Dataset)
        size = given["batch_size"]
        if not train:
            size = given["validation_batch_size"] or size
        return get_data_adapter(
            x, y, weight,
            batch_size=size,
            steps_per_epoch=given["steps_per_epoch"] if train else given["validation_steps"],
            # Keras warns itself that it does not shuffle a data set
            shuffle=given["shuffle"] if train and not is_dataset else False,
            class_weight=given["class_weight"] if train else None,
        )  # fmt: skip

    def _of_arrays(self, split: str) -> DataPlan:
        """Return Keras' own pipeline over arrays as a data plan."""
        from keras.src import tree
        from keras.src.trainers.data_adapters import array_slicing

        adapter = self._adapter(split)
        dataset = functools.cache(adapter.get_tf_dataset)
        value = array_slicing.convert_to_sliceable(adapter._inputs, target_backend="tensorflow")
        if not all(map(_is_dense, tf.nest.flatten(value))):
            return _in_one_piece(dataset, adapter.num_batches)
        count = adapter._num_samples
        source = Source(value=tree.lists_to_tuples(value), origin="arrays", count=count)
        stages: list[Any] = [source]
        if adapter._shuffle:
            # another order in each fit
            seed = self.seed + self.call.number - 1
            passes = functools.partial(_passes, count, adapter._shuffle, adapter.batch_size)
            stages.append(KerasShuffle(seed=seed, passes=passes))
        stages += [Batch(size=adapter.batch_size), Prefetch(buffer_size="auto")]
        given: list[tuple[Any, Any]] = [
            (stage, functools.cache(functools.partial(lower_stages, tuple(stages[: index + 1]))))
            for index, stage in enumerate(stages[:-2])
        ]
        given += [(stage, dataset) for stage in stages[-2:]]
        return DataPlan(tuple(stages), tuple(given))


def _passes(count: int, shuffle: Any, batch_size: int) -> Any:
    """Return a data set whose iterators yield the indices of all examples as one element, in the
    order in which those over Keras' own data set yield the examples.

    It is Keras' own data set of the indices: its random operations have the same seeds. Where they
    have any, each iterator begins with them anew, and making one takes as long as many small steps.
    """
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

    indices = np.arange(count, dtype="int32")
    if shuffle == "batch":
        batches = ArrayDataAdapter(indices, shuffle=shuffle, batch_size=batch_size)
        passes = batches.get_tf_dataset().unbatch().batch(count)
    else:
        passes = ArrayDataAdapter(indices, shuffle=shuffle, batch_size=count).get_tf_dataset()
    operations = [one for graph in walk.graphs(passes) for one in graph.get_operations()]
    shuffles = [one for one in operations if one.type == "RandomShuffle"]
    if shuffles and all(one.get_attr("seed") or one.get_attr("seed2") for one in shuffles):
        return tf.data.Dataset.from_tensors(next(iter(passes)))
    return passes


def _in_one_piece(dataset: Any, batches: int | None = None) -> DataPlan:
    """Return the plan of data whose parts no plugin can change."""
    source = Source(value=None, origin="dataset", count=batches, batched=True, deterministic=False)
    return DataPlan((source,), ((source, dataset),))


def _weighed_batches(dataset: Any, adapter: Any) -> Any:
    """Return another view of a PyDataset, whose batches are as Keras' adapter weighs them."""
    own = type(dataset)

    @functools.wraps(own.__getitem__)
    def item(self: Any, index: int) -> Any:
        return adapter._standardize_batch(own.__getitem__(self, index))

    weighed: Any = object.__new__(type(own.__name__, (own,), {"__getitem__": item}))
    weighed.__dict__ = dataset.__dict__  # what it changes, such as its order, is changed for both
    return weighed


def _is_dense(array: Any) -> bool:
    """Return whether tf.data can slice an array, as Keras converts it, into examples."""

    if isinstance(array, np.ndarray):
        return array.dtype.kind in "biufcUS"
    return isinstance(array, tf.Tensor)


def unchanged(plan: DataPlan, before: DataPlan) -> bool:
    """Return whether both plans have the same stages."""
    return len(plan.stages) == len(before.stages) and all(
        one is other for one, other in zip(plan.stages, before.stages, strict=True)
    )


def _of_generator(dataset: Any) -> DataPlan:
    """Return the plan of a data set over a generator that is running."""
    plan = DataPlan.from_dataset(dataset)
    # Keras takes batches of a generator, though their size may be unknown
    source = attrs.evolve(plan.source, read_once=True, batched=True)
    given = ((source, plan.given[0][1]), *plan.given[1:])
    return DataPlan((source, *plan.stages[1:]), given)


class LoweredData(Mapping[str, Any]):
    """Data sets by split, each lowered on first access, since large arrays are copied.

    :param lowered: returns the data set of a split.
    """

    def __init__(self, plans: Mapping[str, DataPlan], lowered: Callable[[str], Any]) -> None:
        self._plans, self._lowered = plans, functools.cache(lowered)

    def __getitem__(self, split: str) -> Any:
        return self._lowered(split)

    def __iter__(self) -> Iterator[str]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)
