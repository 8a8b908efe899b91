"""Recognize the stages of a given data set after its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.data.batching import Batch, PaddedBatch, RaggedBatch, Unbatch, Window
from tfopt_core.data.dissect.walk import (
    NotUnderstood,
    TracedFunction,
    class_name,
    last_step,
    require,
)
from tfopt_core.data.functions import Filter, Interleave, Map, TakeWhile
from tfopt_core.data.stage import Parallelism, Stage
from tfopt_core.data.stages import Cache, Options, Prefetch, Repeat, Shard, Shuffle, Skip, Take
from tfopt_core.lazy import tf

# Each holds a data set of files, and a flat_map or interleave that reads them.
_READERS = ("TextLineDatasetV2", "TFRecordDatasetV2", "FixedLengthRecordDatasetV2")
_ORDERED = {"default": None, "true": True, "false": False}


def step_of(dataset: Any) -> tuple[Stage, Any]:
    """Return the last stage of a data set, and the data set that it is made from.

    :raises NotUnderstood: if the stage is of an unknown kind.
    """
    require("data-steps")
    if class_name(dataset) in _READERS:
        dataset = dataset._impl
    read = _STEPS.get(class_name(dataset))
    if read is None:
        raise NotUnderstood(type(dataset).__name__)
    stage = read(dataset)
    parent = dataset._input_dataset
    if isinstance(stage, RaggedBatch):
        parent = parent._input_dataset
    if isinstance(stage, Unbatch):
        parent = _before_normalizing(parent)
    return stage, parent


def _map(dataset: Any) -> Map:
    if dataset._force_synchronous or not dataset._preserve_cardinality:
        raise NotUnderstood("a map of an unusual kind")
    return Map(function=TracedFunction.of(dataset._map_func))


def _parallel_map(dataset: Any) -> Map:
    if dataset._use_unbounded_threadpool or not dataset._preserve_cardinality:
        raise NotUnderstood("a map of an unusual kind")
    return Map(
        function=TracedFunction.of(dataset._map_func),
        parallel=_parallelism(dataset),
        ordered=_ORDERED[dataset._deterministic],
    )


def _flat_map(dataset: Any) -> Interleave:
    function = TracedFunction.of(dataset._map_func)
    operations = function.concrete.graph.get_operations()
    if any(operation.type == "GeneratorDataset" for operation in operations):
        raise NotUnderstood("from_generator")
    return Interleave(function=function, cycle_length=1)


def _interleave(dataset: Any, **parallel: Any) -> Interleave:
    return Interleave(
        function=TracedFunction.of(dataset._map_func),
        cycle_length=_auto_as(None, dataset._cycle_length),
        block_length=int(dataset._block_length),
        **parallel,
    )


def _parallel_interleave(dataset: Any) -> Interleave:
    step, _ = last_step(dataset)
    ordered = _ORDERED[step.attr["deterministic"].s.decode()]
    return _interleave(dataset, parallel=_parallelism(dataset), ordered=ordered)


def _shuffle(dataset: Any) -> Shuffle:
    require("shuffles-rebuilt")
    return Shuffle(
        buffer_size=int(dataset._buffer_size),
        seed=(int(dataset._seed), int(dataset._seed2)),
        reshuffle=bool(dataset._reshuffle_each_iteration),
    )


def _batch(dataset: Any, **parallel: Any) -> Batch:
    size, drop = int(dataset._batch_size), bool(dataset._drop_remainder)
    if class_name(dataset._input_dataset) == "_DenseToRaggedDataset":
        return RaggedBatch(size=size, drop_remainder=drop, row_splits=_row_splits(dataset))
    return Batch(size=size, drop_remainder=drop, **parallel)


def _row_splits(dataset: Any) -> Any:
    """Return the type of the row splits of a ragged batch."""
    ragged = dataset._input_dataset
    before = tf.nest.flatten(ragged._input_dataset.element_spec)
    for old, new in zip(before, tf.nest.flatten(ragged.element_spec), strict=True):
        if isinstance(old, tf.TensorSpec) and isinstance(new, tf.RaggedTensorSpec):
            return new.row_splits_dtype.name
    return "int64"


def _padded_batch(dataset: Any) -> PaddedBatch:
    def shape(sizes: Any) -> Any:
        return tf.TensorShape([None if size < 0 else size for size in sizes.numpy().tolist()])

    return PaddedBatch(
        size=int(dataset._batch_size),
        drop_remainder=bool(dataset._drop_remainder),
        shapes=tf.nest.map_structure(shape, dataset._padded_shapes),
        values=dataset._padding_values,
    )


def _before_normalizing(restructured: Any) -> Any:
    """Return the input of `unbatch`, which first converts ragged and sparse tensors."""
    normalized = restructured._input_dataset
    name = normalized._map_func._func.__qualname__
    if class_name(restructured) != "_RestructuredDataset" or "normalize_to_dense" not in name:
        raise NotUnderstood("an unbatch of another make")
    return normalized._input_dataset


def _window(dataset: Any) -> Window:
    return Window(
        size=int(dataset._size),
        shift=int(dataset._shift),
        stride=int(dataset._stride),
        drop_remainder=bool(dataset._drop_remainder),
    )


def _repeat(dataset: Any) -> Repeat:
    count = int(dataset._count)
    return Repeat(count=None if count < 0 else count)


def _cache(dataset: Any) -> Cache:
    if dataset._filename.numpy():
        # rebuilt after other stages, it would read or write the wrong elements
        raise NotUnderstood("a cache in files that outlive this process")
    return Cache()


def _parallelism(dataset: Any) -> Parallelism:
    calls: Parallelism = _auto_as("auto", dataset._num_parallel_calls)
    return calls


def _auto_as(auto: Any, tensor: Any) -> Any:
    """Return the number, or `auto` for tf.data's AUTOTUNE."""
    number = int(tensor)
    return auto if number == tf.data.AUTOTUNE else number


# The function that reads a step, by its class.
_STEPS: dict[str, Callable[[Any], Stage]] = {
    "CacheDataset": _cache,
    "_BatchDataset": _batch,
    "_FilterDataset": lambda dataset: Filter(function=TracedFunction.of(dataset._predicate)),
    "_FlatMapDataset": _flat_map,
    "_InterleaveDataset": _interleave,
    "_MapDataset": _map,
    "_OptionsDataset": lambda dataset: Options(options=dataset.options()),
    "_PaddedBatchDataset": _padded_batch,
    "_ParallelBatchDataset": lambda dataset: _batch(
        dataset, parallel=_parallelism(dataset), ordered=_ORDERED[dataset._deterministic]
    ),
    "_ParallelInterleaveDataset": _parallel_interleave,
    "_ParallelMapDataset": _parallel_map,
    "_PrefetchDataset": lambda dataset: Prefetch(
        buffer_size=_auto_as("auto", dataset._buffer_size), inside=True
    ),
    "_RepeatDataset": _repeat,
    "_ShardDataset": lambda dataset: Shard(
        count=int(dataset._num_shards), index=int(dataset._index)
    ),
    "_ShuffleDataset": _shuffle,
    "_SkipDataset": lambda dataset: Skip(count=int(dataset._count)),
    "_TakeDataset": lambda dataset: Take(count=int(dataset._count)),
    "_TakeWhileDataset": lambda dataset: TakeWhile(function=TracedFunction.of(dataset._predicate)),
    "_UnbatchDataset": lambda dataset: Unbatch(),
    "_WindowDataset": _window,
}
