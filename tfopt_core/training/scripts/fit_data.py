"""The data of a script's `fit`, as data plans that plugins can rewrite."""

from __future__ import annotations

import functools
from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, Prefetch, Shuffle, Source, Take
from tfopt_core.data.later import Later
from tfopt_core.data.lower import lower_stages
from tfopt_core.training.scripts.call import FitCall


@attrs.define(eq=False)
class FitData:
    """The data of one call of `fit`.

    A generator can be read only once, so its reader is made once.

    :param reads: whether to read generators here, to rewrite or inspect the data; Keras can then
        no longer read them itself.
    :param seed: the seed for shuffles of arrays, if a plugin changes the plan.
    """

    call: FitCall
    seed: int
    reads: bool = False
    _read_once: dict[str, Later] = attrs.field(factory=dict)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.call.splits)

    def plan(self, split: str) -> DataPlan:
        """Return a new data plan of a split. Unchanged, it is lowered to what Keras reads."""
        import keras
        import tensorflow as tf
        from keras.src.trainers.data_adapters import array_data_adapter

        x, y, weight = parts = self.call.splits[split]
        if isinstance(x, tf.data.Dataset):
            return DataPlan.from_dataset(x)
        if isinstance(x, keras.utils.PyDataset):
            redrawn = split == "train" and bool(self.call.arguments["shuffle"])
            return DataPlan.from_pydataset(x, redrawn=redrawn)
        if array_data_adapter.can_convert_arrays(parts):
            return self._of_arrays(x, y, weight, split)
        if split not in self._read_once:
            # the reader of a generator takes its first batch: make it once, and only if needed
            self._read_once[split] = Later(lambda: self._adapter(split).get_tf_dataset())
        if self.reads:
            return _of_generator(self._read_once[split]())
        source = Source(value=None, origin="dataset", batched=True, deterministic=False)
        return DataPlan((source,), ((source, self._read_once[split]),))

    def read_already(self, split: str) -> bool:
        """Return whether the data can be read only once, and are being read already."""
        return split in self._read_once and self._read_once[split].is_made

    def can_be_read_once(self, split: str) -> bool:
        """Return whether the data can be read only once."""
        return split in self._read_once

    @property
    def shuffles_arrays(self) -> bool:
        """Whether Keras shuffles arrays, in an order that no other pipeline reproduces."""
        from keras.src.trainers.data_adapters import array_data_adapter

        arrays = array_data_adapter.can_convert_arrays(self.call.splits["train"])
        return arrays and bool(self.call.arguments["shuffle"])

    def steps_per_epoch(self) -> int | None:
        """Return the steps of an epoch of the script's own data; None if unknown."""
        import keras
        import tensorflow as tf

        if self.call.steps_per_epoch is not None:
            return self.call.steps_per_epoch
        x = self.call.splits["train"][0]
        if isinstance(x, tf.data.Dataset):
            return _known(int(x.cardinality()))
        if isinstance(x, keras.utils.PyDataset):
            return None if x.num_batches is None else int(x.num_batches)
        return self.plan("train").cardinality

    def _adapter(self, split: str) -> Any:
        from keras.src.trainers.data_adapters import get_data_adapter

        given, (x, y, weight) = self.call.arguments, self.call.splits[split]
        train = split == "train"
        size = given["batch_size"]
        if not train:
            size = given["validation_batch_size"] or size
        return get_data_adapter(
            x, y, weight,
            batch_size=size,
            steps_per_epoch=given["steps_per_epoch"] if train else given["validation_steps"],
            shuffle=given["shuffle"] if train else False,
        )  # fmt: skip

    def _of_arrays(self, x: Any, y: Any, weight: Any, split: str) -> DataPlan:
        """Return Keras' own pipeline over arrays as a data plan."""
        from keras.src import tree

        adapter = self._adapter(split)
        dataset = Later(adapter.get_tf_dataset)
        count, shuffle = adapter._num_samples, bool(adapter._shuffle)
        value = tree.map_structure(_as_keras_casts, tree.lists_to_tuples(adapter._inputs))
        source = Source(value=value, origin="arrays", count=count)
        stages: list[Any] = [source]
        if shuffle:
            stages.append(Shuffle(seed=self.seed))
        stages += [Batch(size=adapter._batch_size), Prefetch(buffer_size="auto")]
        given: list[tuple[Any, Any]] = [
            (stage, Later(functools.partial(lower_stages, tuple(stages[: index + 1]))))
            for index, stage in enumerate(stages[:-2])
        ]
        given += [(stage, dataset) for stage in stages[-2:]]
        return DataPlan(tuple(stages), tuple(given))


def ended_after(plan: DataPlan, steps: int | None) -> DataPlan:
    """Return the plan with at most `steps` batches in an epoch."""
    if steps is None or (plan.cardinality is not None and plan.cardinality <= steps):
        return plan
    return plan.append(Take(count=steps))


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


def _known(cardinality: int) -> int | None:
    return cardinality if cardinality >= 0 else None


def _as_keras_casts(array: Any) -> Any:
    """Return the array in Keras' float type, in which Keras computes in any case."""
    import keras
    import numpy as np
    import tensorflow as tf

    if tf.is_tensor(array):
        if array.dtype.is_floating and array.dtype.name != keras.config.floatx():
            return tf.cast(array, keras.config.floatx())
        return array
    array = np.asarray(array)
    if array.dtype.kind == "f" and array.dtype.name != keras.config.floatx():
        return array.astype(keras.config.floatx())
    return array
