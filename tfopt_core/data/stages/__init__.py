"""The stages of an input pipeline, as data. No TensorFlow: `lower` turns them into tf.data."""

from tfopt_core.data.functions import function_name
from tfopt_core.data.stages.base import Parallelism, Stage
from tfopt_core.data.stages.batching import Batch, PaddedBatch, RaggedBatch, Unbatch, Window
from tfopt_core.data.stages.computing import (
    Filter,
    Interleave,
    Map,
    MapBatches,
    MapExamples,
    Opaque,
    TakeWhile,
)
from tfopt_core.data.stages.running import Autotune, Cache, Held, Options, Prefetch, Resident
from tfopt_core.data.stages.selecting import Repeat, Shard, Shuffle, Skip, Take
from tfopt_core.data.stages.sharing import (
    EvenSteps,
    PartOfBatch,
    PartOfExamples,
    PartOfSource,
)
from tfopt_core.data.stages.source import Origin, Source

__all__ = [
    "Autotune",
    "Batch",
    "Cache",
    "EvenSteps",
    "Filter",
    "Held",
    "Interleave",
    "Map",
    "MapBatches",
    "MapExamples",
    "Opaque",
    "Options",
    "Origin",
    "PaddedBatch",
    "Parallelism",
    "PartOfBatch",
    "PartOfExamples",
    "PartOfSource",
    "Prefetch",
    "RaggedBatch",
    "Repeat",
    "Resident",
    "Shard",
    "Shuffle",
    "Skip",
    "Source",
    "Stage",
    "Take",
    "TakeWhile",
    "Unbatch",
    "Window",
    "function_name",
]
