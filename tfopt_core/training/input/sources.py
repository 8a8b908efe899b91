"""Convert a workload's data to a `DataPlan`, batch them, cut them down, hand them to `fit`."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.data import Batch, DataPlan, Shuffle, Take
from tfopt_core.data.stages import before_copy
from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without


def as_plan(data: Any, split: str) -> DataPlan:
    """Return the plan of any data that a workload may give.

    :raises WorkloadError: for anything else, and for arrays that do not fit together.
    """
    if isinstance(data, DataPlan):
        return data
    if isinstance(data, tf.data.Dataset):
        return DataPlan.from_dataset(data)
    if isinstance(data, keras.utils.PyDataset):
        return DataPlan.from_pydataset(data)
    try:
        if isinstance(data, tuple | list):
            return DataPlan.from_arrays(*data)
        if isinstance(data, dict):
            return DataPlan.from_arrays(data)
        if callable(data):
            return DataPlan.from_generator(data)
        if hasattr(data, "__array__"):
            return DataPlan.from_arrays(data)
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"the {split} data: {error}") from error
    if hasattr(data, "__next__"):
        raise WorkloadError(
            f"the {split} data: an iterator can be read only once, but each epoch reads it again; "
            "give the function that makes it"
        )
    raise WorkloadError(
        f"the {split} data are a {type(data).__name__}; give a DataPlan, a tf.data.Dataset, "
        "arrays (x, y), a PyDataset or a function that returns an iterator"
    )


def batched_plan(
    plan: DataPlan, split: str, *, batch_size: int, explicit: bool, shuffle: bool, seed: int
) -> DataPlan:
    """Return the baseline's plan: the workload's stages, shuffled anew each epoch and batched.

    Arrays are shuffled before any map, other sources after their maps, as a careful user writes
    it with stock tf.data; caching, parallel maps and prefetching are left to plugins. A data set
    that the workload gives is shuffled as a whole, even where its stages are known.

    :param explicit: whether the recipe itself sets this batch size.
    :param shuffle: whether to shuffle; validation data never are.
    :raises WorkloadError: for batched data together with the recipe's own batch size.
    """
    if plan.batched:
        if explicit:
            raise WorkloadError(
                f"the {split} data are batched already, so workload.batch_size would have no "
                "effect; remove it, or return unbatched data"
            )
        if plan.source.origin == "pydataset" and shuffle and split == "train":
            redrawn = attrs.evolve(plan.source, redrawn=True)  # by Keras, as `fit` is asked to
            return plan.with_stages((redrawn, *plan.stages[1:]))
        return plan
    plan = plan.keeping_prefetch()
    given = [stage for stage, _ in plan.given]
    shuffled = any(stage.order == "shuffled" and stage not in given for stage in plan.stages)
    if shuffle and split == "train" and not shuffled:
        stage = Shuffle(seed=seed)
        at_source = plan.source.random_access and not plan.given
        plan = plan.insert(1, stage) if at_source else plan.append(stage)
    return plan.append(Batch(size=batch_size))


def ended_after(plan: DataPlan, steps: int | None) -> DataPlan:
    """Return the plan with at most `steps` batches in an epoch."""
    if steps is None or (plan.cardinality is not None and plan.cardinality <= steps):
        return plan
    return plan.append(Take(count=steps))


def first_batches(plan: DataPlan, batches: int, batch_size: int) -> DataPlan:
    """Return the plan of the first batches: fewer examples at its source, of which the last batch
    is as small as that of all; half a batch where their number is unknown."""
    if plan.source.batched:
        return ended_after(plan.first(batches), batches)
    examples = plan.examples
    left = batch_size // 2 if examples is None else -examples % batch_size
    return ended_after(
        plan.first(max(1, batches * batch_size - left)),
        batches if plan.batched else batches * batch_size,
    )


def batches_counted(own: int | None, plan: DataPlan) -> int | None:
    """Return how many batches Keras should count in the data of a plan, as for `counted_as`.

    :param own: how many it counts in the workload's own data; None where it does not count them.
    :param plan: the plan with the stack, which may batch otherwise.
    """
    return own if own is None or plan.cardinality is None else plan.cardinality


def counted_as(dataset: Any, batches: int | None) -> Any:
    """Return the data with the number of batches that Keras counts in those that they replace.

    Where Keras does not know the number, it makes a call past the end of each pass, which counts
    as a step of the optimizer. So it must know as much of data that yield the same batches.

    :param dataset: a `tf.data.Dataset`; any other data are returned as they are.
    :param batches: None where Keras does not know the number.
    """
    if not isinstance(dataset, tf.data.Dataset):
        return dataset
    found = int(dataset.cardinality())
    if batches is not None and found == tf.data.UNKNOWN_CARDINALITY:
        return before_copy(dataset, tf.data.experimental.assert_cardinality(batches))
    if batches is None and found >= 0:
        # another object over the same data, since the plugins read this one back
        dataset = before_copy(dataset, lambda data: data.with_options(tf.data.Options()))
        dataset.cardinality = lambda: tf.constant(tf.data.UNKNOWN_CARDINALITY, tf.int64)
    return dataset


def with_class_weight(dataset: Any, class_weight: Any) -> Any:
    """Return the data with the weight of each example's class, as Keras' `fit` adds it.

    :raises WorkloadError: if the installed Keras has no function for that.
    """
    missing = why_without("class-weights")
    if missing:
        raise WorkloadError(missing)
    from keras.src.trainers.data_adapters.tf_dataset_adapter import make_class_weight_map_fn

    weigh = make_class_weight_map_fn(dict(class_weight))
    return before_copy(dataset, lambda data: data.map(weigh))


def weighed(train: Any, class_weight: Any) -> tuple[Any, Any]:
    """Return the training data and the class weights that `fit` is given: none where the data
    hold them already, as those do whose batches Keras would count anew, or which a device holds."""
    if class_weight is None or "cardinality" not in vars(train):
        return train, class_weight
    dataset = with_class_weight(train, class_weight)
    dataset.cardinality = train.cardinality
    return dataset, None
