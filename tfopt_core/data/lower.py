"""From a `DataPlan` to what Keras' `fit` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.data.plan import DataPlan
from tfopt_core.data.resident import lowered_resident
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    Cache,
    Filter,
    Interleave,
    Map,
    Opaque,
    Prefetch,
    Repeat,
    Resident,
    Shuffle,
    Source,
    Stage,
    Take,
)
from tfopt_core.errors import WorkloadError

# The shuffle buffer, in examples, where nobody knows how many there are.
UNKNOWN_COUNT_BUFFER = 10_000
# How many examples of a generator are read to learn their shapes.
_SAMPLES = 8


def lower(plan: DataPlan) -> Any:
    """The data as `fit` takes it: a `tf.data.Dataset`, or the untouched PyDataset.

    An unchanged plan of a data set or PyDataset lowers to that very object.
    """
    if len(plan.stages) == 1 and plan.source.origin in ("dataset", "pydataset"):
        return plan.source.value
    return lower_stages(plan.lowering_order())


def lower_stages(stages: Sequence[Stage]) -> Any:
    """A `tf.data.Dataset` of these stages, the source first."""
    source, *rest = stages
    assert isinstance(source, Source)
    dataset = _source(source)
    for stage in rest:
        dataset = _lowered(dataset, stage)
    return dataset


def _source(source: Source) -> Any:
    import tensorflow as tf

    match source.origin:
        case "dataset":
            return source.value
        case "arrays":
            return tf.data.Dataset.from_tensor_slices(source.value)
        case "generator":
            signature = source.signature
            if signature is None:
                signature = _signature(source.value())
            return tf.data.Dataset.from_generator(source.value, output_signature=signature)
        case "pydataset":
            return _from_pydataset(source.value)


def _from_pydataset(pydataset: Any) -> Any:
    import tensorflow as tf

    def batches() -> Any:
        for index in range(pydataset.num_batches):
            yield pydataset[index]
        pydataset.on_epoch_end()

    first = pydataset[0]
    # batches differ in length: the last one is often smaller
    signature = tf.nest.map_structure(
        lambda a: tf.TensorSpec((None, *tf.convert_to_tensor(a).shape[1:]), _dtype(a)), first
    )
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(pydataset.num_batches))


def _signature(iterator: Any) -> Any:
    import tensorflow as tf

    samples = [example for example, _ in zip(iterator, range(_SAMPLES), strict=False)]
    if not samples:
        raise WorkloadError("the generator yields nothing")

    def spec(*values: Any) -> Any:
        shapes = [tf.TensorShape(tf.convert_to_tensor(value).shape) for value in values]
        common = shapes[0]
        for shape in shapes[1:]:
            common = common.most_specific_compatible_shape(shape)
        return tf.TensorSpec(common, _dtype(values[0]))

    return tf.nest.map_structure(spec, *samples)


def _dtype(value: Any) -> Any:
    import tensorflow as tf

    return tf.convert_to_tensor(value).dtype


def _lowered(dataset: Any, stage: Stage) -> Any:
    import tensorflow as tf

    autotune = tf.data.AUTOTUNE

    def calls(parallel: Any) -> dict[str, Any]:
        if parallel is None:
            return {}
        return {"num_parallel_calls": autotune if parallel == "auto" else parallel}

    match stage:
        case Map():
            order = {"deterministic": stage.ordered} if stage.parallel is not None else {}
            return dataset.map(stage.function, **calls(stage.parallel), **order)
        case Filter():
            return dataset.filter(stage.function)
        case Shuffle():
            size = stage.buffer_size
            if size is None:
                size = _count(dataset)
            return dataset.shuffle(size, seed=stage.seed, reshuffle_each_iteration=stage.reshuffle)
        case Repeat():
            return dataset.repeat(stage.count)
        case Cache():
            return dataset.cache("" if stage.path is None else str(stage.path))
        case Batch():
            return dataset.batch(stage.size, drop_remainder=stage.drop_remainder)
        case Interleave():
            return dataset.interleave(
                stage.function,
                cycle_length=stage.cycle_length,
                block_length=stage.block_length,
                **calls(stage.parallel),
                **({"deterministic": stage.ordered} if stage.parallel is not None else {}),
            )
        case Take():
            return dataset.take(stage.count)
        case Prefetch():
            ahead = stage.buffer_size
            return dataset.prefetch(autotune if ahead == "auto" else ahead)
        case Autotune():
            return dataset.with_options(_autotune_options(stage))
        case Resident():
            return lowered_resident(dataset, stage)
        case Opaque():
            return stage.function(dataset)
    raise TypeError(f"no lowering for the stage {stage.kind}")


def _autotune_options(stage: Autotune) -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    for name, value in (
        ("enabled", stage.enabled),
        ("cpu_budget", stage.cpu_budget),
        ("ram_budget", stage.ram_budget_bytes),
    ):
        if value is not None:
            setattr(options.autotune, name, value)
    return options


def _count(dataset: Any) -> int:
    """A buffer for all elements, as far as their number is known; they are never counted, since
    that may take as long as an epoch, or for ever."""
    count = int(dataset.cardinality())
    return UNKNOWN_COUNT_BUFFER if count < 0 else max(1, count)
