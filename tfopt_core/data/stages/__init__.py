"""The stages of an input pipeline. They import TensorFlow only where they are lowered."""

from tfopt_core.data.functions import function_name
from tfopt_core.data.stages.base import (
    Count,
    ModelStage,
    Order,
    Parallelism,
    ParallelStage,
    SameElements,
    Stage,
    Yields,
)
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
from tfopt_core.data.stages.parts import (
    EvenSteps,
    Part,
    PartOfBatch,
    PartOfExamples,
    PartOfSource,
)
from tfopt_core.data.stages.resident import Held, Resident
from tfopt_core.data.stages.running import Autotune, Cache, Options, Prefetch
from tfopt_core.data.stages.selecting import Repeat, Shard, Shuffle, Skip, Take
from tfopt_core.data.stages.source import Origin, Source

__all__ = [
    "Autotune",
    "Batch",
    "Cache",
    "Count",
    "EvenSteps",
    "Filter",
    "Held",
    "Interleave",
    "Map",
    "MapBatches",
    "MapExamples",
    "ModelStage",
    "Opaque",
    "Options",
    "Order",
    "Origin",
    "PaddedBatch",
    "ParallelStage",
    "Parallelism",
    "Part",
    "PartOfBatch",
    "PartOfExamples",
    "PartOfSource",
    "Prefetch",
    "RaggedBatch",
    "Repeat",
    "Resident",
    "SameElements",
    "Shard",
    "Shuffle",
    "Skip",
    "Source",
    "Stage",
    "Take",
    "TakeWhile",
    "Unbatch",
    "Window",
    "Yields",
    "function_name",
]
