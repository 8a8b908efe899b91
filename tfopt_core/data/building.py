"""Apply a stage to a `tf.data.Dataset`."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.data import dissect
from tfopt_core.data.resident import lowered_resident
from tfopt_core.data.sharing import evened, shared
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    Cache,
    EvenSteps,
    Filter,
    Interleave,
    Map,
    Opaque,
    Options,
    PaddedBatch,
    PartOfBatch,
    PartOfExamples,
    PartOfSource,
    Prefetch,
    RaggedBatch,
    Repeat,
    Resident,
    Shard,
    Shuffle,
    Skip,
    Stage,
    Take,
    TakeWhile,
    Unbatch,
    Window,
)

# The shuffle buffer, in examples, for data of unknown length.
UNKNOWN_COUNT_BUFFER = 10_000


def built(dataset: Any, stage: Stage) -> Any:
    """Return the data set with this stage appended."""
    match stage:
        case Map():
            return dataset.map(stage.function, **_calls(stage))
        case Filter():
            return dataset.filter(stage.function)
        case TakeWhile():
            return dataset.take_while(stage.function)
        case Interleave():
            return _interleaved(dataset, stage)
        case Shuffle():
            return _shuffled(dataset, stage)
        case Batch():
            return _batched(dataset, stage)
        case Unbatch():
            return dataset.unbatch()
        case Window():
            return dataset.window(stage.size, stage.shift, stage.stride, stage.drop_remainder)
        case Repeat():
            return dataset.repeat(stage.count)
        case Take():
            return dataset.take(stage.count)
        case Skip():
            return dataset.skip(stage.count)
        case Shard():
            return dataset.shard(stage.count, stage.index)
        case PartOfBatch() | PartOfExamples() | PartOfSource():
            return shared(dataset, stage)
        case EvenSteps():
            return evened(dataset, stage)
        case Cache():
            return dataset.cache("" if stage.path is None else str(stage.path))
        case Prefetch():
            return _prefetched(dataset, stage)
        case Options():
            return dataset.with_options(stage.options)
        case Autotune():
            return dataset.with_options(_autotune_options(stage))
        case Resident():
            return lowered_resident(dataset, stage)
        case Opaque():
            return stage.function(dataset)
    raise TypeError(f"no lowering for the stage {stage.kind}")


def _calls(stage: Map | Interleave | Batch) -> dict[str, Any]:
    import tensorflow as tf

    if stage.parallel is None:
        return {}
    calls = tf.data.AUTOTUNE if stage.parallel == "auto" else stage.parallel
    return {"num_parallel_calls": calls, "deterministic": stage.ordered}


def _interleaved(dataset: Any, stage: Interleave) -> Any:
    if stage.cycle_length == 1 and stage.parallel is None:
        return dataset.flat_map(stage.function)
    return dataset.interleave(
        stage.function,
        cycle_length=stage.cycle_length,
        block_length=stage.block_length,
        **_calls(stage),
    )


def _shuffled(dataset: Any, stage: Shuffle) -> Any:
    size = _count(dataset) if stage.buffer_size is None else stage.buffer_size
    if isinstance(stage.seed, tuple):
        return dissect.shuffled(dataset, size, stage.seed, stage.reshuffle)
    return dataset.shuffle(size, seed=stage.seed, reshuffle_each_iteration=stage.reshuffle)


def _batched(dataset: Any, stage: Batch) -> Any:
    import tensorflow as tf

    match stage:
        case PaddedBatch():
            return dataset.padded_batch(
                stage.size,
                padded_shapes=stage.shapes,
                padding_values=stage.values,
                drop_remainder=stage.drop_remainder,
            )
        case RaggedBatch():
            return dataset.ragged_batch(
                stage.size,
                drop_remainder=stage.drop_remainder,
                row_splits_dtype=tf.as_dtype(stage.row_splits),
            )
    return dataset.batch(stage.size, drop_remainder=stage.drop_remainder, **_calls(stage))


def of_static_size(stage: Stage, dataset: Any) -> Stage:
    """Return the stage with a static batch size, if no smaller batch is left over.

    A model's step is traced for the shapes of its batches, and is faster where their size is known,
    as with arrays that are given to `fit`.

    :param dataset: the data set before the stage.
    """
    import tensorflow as tf

    if type(stage) is not Batch or stage.drop_remainder:
        return stage
    # None within a graph (parameter servers), negative where it is unknown or infinite
    count = tf.get_static_value(dataset.cardinality())
    filled = count is not None and count > 0 and count % stage.size == 0
    return attrs.evolve(stage, drop_remainder=True) if filled else stage


def _prefetched(dataset: Any, stage: Prefetch) -> Any:
    import tensorflow as tf

    size = tf.data.AUTOTUNE if stage.buffer_size == "auto" else stage.buffer_size
    if stage.device is not None:
        ahead = dataset.apply(tf.data.experimental.prefetch_to_device(stage.device, size))
        ahead.cardinality = dataset.cardinality  # TF 2.21 calls it unknown, and `fit` then warns
        return ahead
    return dataset.prefetch(size)


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
    """Return a buffer size for all elements, as far as their number is known. They are never
    counted, since that may take as long as an epoch, or for ever."""
    count = int(dataset.cardinality())
    return UNKNOWN_COUNT_BUFFER if count < 0 else max(1, count)
