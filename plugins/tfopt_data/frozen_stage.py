"""The stage that computes the frozen part of a model once and keeps what comes of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data import Count, ModelStage, lower_plan
from tfopt_core.plugins import DataPlan, PluginRefused
from tfopt_core.toolkit import keras, np, tf
from tfopt_data.cache_storage import about, too_large, too_large_for_disk
from tfopt_data.frozen_prefix import KEY, Halves, halves, mixes_examples, with_head, without_head
from tfopt_data.kept_rows import can_be_rows, computed_rows

# So many examples of a batch are computed to see that they do not depend on each other.
CHECKED_EXAMPLES = 8

Storage = Literal["auto", "memory", "disk"]


@attrs.define(eq=False)
class FrozenPart:
    """What the stages of one fit share: the cut model, and what came of each split.

    :param done: by split, where and how much is kept.
    :param reasons: by split, why nothing is.
    :param before_training: the splits whose features were computed before the training.
    """

    done: dict[str, str] = attrs.field(factory=dict)
    reasons: dict[str, str] = attrs.field(factory=dict)
    before_training: set[str] = attrs.field(factory=set)
    _model: Any = None
    _cut: Halves | str = ""
    _begin: list[Any] = attrs.field(factory=list)

    def of(self, model: Any) -> Halves | str:
        """Return the halves of the model, or why it has none."""
        if self._model is not model:
            without_head(model)  # an earlier build of the same model
            self._model, self._cut = model, halves(model)
        return self._cut

    def use(self, cut: Halves) -> None:
        """Have the model take features."""
        self._begin = [keras.ops.convert_to_numpy(weight).copy() for weight in cut.weights]
        without_head(self._model)
        with_head(self._model, cut, lambda: TRACED.update({self._model: _trained(self._model)}))

    def changed(self) -> str:
        """Return which frozen weight is not what it was when the features were made, "" if none."""
        if isinstance(self._cut, str):
            return ""
        for weight, begin in zip(self._cut.weights, self._begin, strict=True):
            if not np.array_equal(keras.ops.convert_to_numpy(weight), begin):
                return str(weight.path)
        return ""


# The models whose head was traced on features, with the weights that it trains: a second fit of a
# model reuses its train function, and traces nothing.
TRACED: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()


def _trained(model: Any) -> frozenset[int]:
    return frozenset(map(id, model.trainable_variables))


@attrs.frozen(kw_only=True, eq=False)
class FrozenFeatures(
    ModelStage, kind="frozen_features", yields="mapped", order="kept", computes=True,
    chooses=False, stops_early=False,
):  # fmt: skip
    """Replaces the inputs of each example by the features of the frozen part, computed once.

    Those that are kept in memory are computed once the model is known. Those that are kept on the
    disk, and examples of unlike shapes, are computed by tf.data in the first epoch.

    :param part: what the stages of this fit share.
    :param before: the plan up to this stage.
    :param batch_size: how many examples are computed at once; None where elements are batches.
    :param path: the file for features that are kept on the disk.
    :param budget_bytes: what may be kept in memory.
    :param shuffled_by_keras: whether Keras' own shuffle follows, which picks examples in memory.
    :param in_python: whether tf.data calls Python for features, since its functions cannot use the
        variables of a GPU.
    :param cut: the halves of the model; None until it is built.
    :param tensors: the examples with their features (examples, ...); None where tf.data computes
        them.
    """

    deterministic: bool | None = True

    split: str
    part: FrozenPart = attrs.field(repr=False)
    before: DataPlan = attrs.field(repr=False)
    batch_size: int | None
    path: Path
    storage: Storage = "auto"
    budget_bytes: float = math.inf
    shuffled_by_keras: bool = False
    in_python: bool = False
    cut: Halves | None = attrs.field(default=None, repr=False)
    tensors: Any = attrs.field(default=None, repr=False)

    @property
    def fills(self) -> bool:
        return self.cut is not None and self.tensors is None

    @property
    def holds(self) -> int | None:
        return None if self.storage == "memory" else 0

    def count_after(self, before: Count) -> Count:
        return before

    def describe(self) -> str:
        if self.cut is None:
            return "frozen features: where the model has a frozen part"
        where = "on disk" if self.storage == "disk" else "in memory"
        last = ", ".join(f'"{name}"' for name in self.cut.last)
        return f"frozen features: up to {last}, {where}"

    def for_model(self, model: Any) -> FrozenFeatures | None:
        """Return the stage with the halves of the model; None, with the reason, if it has none."""
        if self.split != "train" and "train" not in self.part.done:
            self.part.reasons[self.split] = "the training data have none"
            return None
        traced = TRACED.get(model)
        if model.train_function is not None and traced not in (None, _trained(model)):
            raise PluginRefused(
                "layers were frozen or unfrozen after an earlier fit, which Keras ignores until "
                "the model is compiled again; compile it, or leave the plugin out",
                "frozen-features",
            )
        if model.train_function is not None and traced is None:
            # what was frozen since then is trained all the same
            self.part.reasons[self.split] = (
                "an earlier fit has traced the training step, which stays as it is until the model "
                "is compiled again"
            )
            return None
        cut = self.part.of(model)
        data = lower_plan(self.before)
        reason = cut if isinstance(cut, str) else self._why_not(cut, data)
        if isinstance(cut, str) or reason:
            self.part.reasons[self.split] = reason
            return None
        needed = self._needed_bytes(cut)
        storage, shortage = self._place(needed)
        if shortage:
            self.part.reasons[self.split] = shortage
            return None
        if self.split == "train":
            self.part.use(cut)
        stage = attrs.evolve(self, cut=cut, storage=storage)
        if stage.takes_rows(data):
            # not when it is lowered: each new global seed has TensorFlow prepare all graphs anew
            rows = computed_rows(self._batches(data), _with_features(cut.features))
            self.part.before_training.add(self.split)
            stage = attrs.evolve(stage, tensors=rows)
        self.part.done[self.split] = f"{stage.describe().partition(': ')[2]}, {about(needed)}"
        return stage

    def release(self, model: Any) -> None:
        """Have the model take its own inputs only."""
        without_head(model)

    def lower(self, dataset: Any) -> Any:
        """Return the data set with features in the place of inputs, which are kept."""
        if self.cut is None:
            return dataset
        if self.tensors is not None:
            return self._slices()
        count = dataset.cardinality()
        if self.batch_size is None:
            data = self.on_batches(dataset)
        else:
            data = self.on_batches(self._batches(dataset)).unbatch()
            if int(count) >= 0:
                # or `fit` takes the number for unknown, and counts one step too many an epoch
                data = data.apply(tf.data.experimental.assert_cardinality(count))
        return data.cache(str(self.path) if self.storage == "disk" else "")

    def on_batches(self, dataset: Any) -> Any:
        """Return a data set of batches with features in the place of inputs."""
        cut = self.cut
        if cut is None:
            return dataset
        compute = _in_python(cut) if self.in_python else cut.features
        return dataset.map(_with_features(compute))

    def _batches(self, dataset: Any) -> Any:
        return dataset if self.batch_size is None else dataset.batch(self.batch_size)

    def takes_rows(self, dataset: Any) -> bool:
        """Return whether all examples can be held as tensors, of which batches are made again."""
        if self.storage != "memory" or self.before.examples is None:
            return False
        batched = self.batch_size is None
        if batched and self.before.batch_size is None:
            return False
        return can_be_rows(dataset.element_spec[1:], batched=batched)

    def _slices(self) -> Any:
        """Return slices of the rows, in batches where the elements were batches."""
        data = tf.data.Dataset.from_tensor_slices(self.tensors)
        if self.batch_size is not None:
            return data
        size = self.before.batch_size
        assert size is not None
        # batches that all are full have a static shape
        return data.batch(size, drop_remainder=int(data.cardinality()) % size == 0)

    def _why_not(self, cut: Halves, data: Any) -> str:
        """Return why the features of these data cannot take the place of their inputs."""
        if not isinstance(data.element_spec, tuple):
            return "its elements are no tuples of inputs and targets"
        if self.split != "train":
            return ""
        batches = data if self.batch_size is None else data.batch(CHECKED_EXAMPLES)
        for inputs, *_ in batches.take(1):
            if mixes_examples(cut, inputs):
                return "its frozen part computes with the other examples of a batch"
        return ""

    def _needed_bytes(self, cut: Halves) -> float | None:
        shapes = [(tensor.shape[1:], tensor.dtype) for tensor in cut.head.inputs]
        count = self.before.examples
        if count is None or any(None in shape for shape, _ in shapes):
            return None
        if self.before.source.batched:
            return None
        return count * float(
            sum(math.prod(shape) * tf.as_dtype(dtype).size for shape, dtype in shapes)
        )

    def _place(self, needed: float | None) -> tuple[Literal["memory", "disk"], str]:
        """Return where the features are kept, and why they cannot be, "" if they can or nobody
        knows."""
        what = "the features need"
        if self.shuffled_by_keras:  # from the disk they would come in another order
            if self.storage == "disk" or needed is None:
                return "memory", "features of arrays that Keras shuffles are kept in memory only"
            where = "of memory may be used; set memory_mib"
            return "memory", too_large(what, needed, self.budget_bytes, where)
        fits = needed is not None and needed <= self.budget_bytes
        if self.storage == "disk" or (self.storage == "auto" and not fits):
            return "disk", too_large_for_disk(what, needed, self.path.parent)
        where = 'of memory may be used; set storage = "auto" or "disk"'
        return "memory", too_large(what, needed, self.budget_bytes, where)


def _with_features(compute: Any) -> Any:
    """Return what replaces the inputs of a batch by their features."""

    def with_features(inputs: Any, *rest: Any) -> Any:
        return ({KEY: compute(inputs)}, *rest)

    return with_features


def _in_python(cut: Halves) -> Any:
    """Return what computes features by a call of Python, on whatever device holds the weights."""
    types = [tensor.dtype for tensor in cut.head.inputs]

    def features(inputs: Any) -> tuple[Any, ...]:
        def call(*flat: Any) -> Any:
            return list(cut.features(tf.nest.pack_sequence_as(inputs, flat)))

        found = tf.py_function(call, tf.nest.flatten(inputs), types)
        for feature, tensor in zip(found, cut.head.inputs, strict=True):
            feature.set_shape(tensor.shape)
        return tuple(found)

    return features
