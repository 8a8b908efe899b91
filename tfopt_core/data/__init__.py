"""The input pipeline as data: plans, their stages, and how they become `tf.data`.

What is listed here is public: plugins import it, and nothing below it. No TensorFlow is imported.
"""

from tfopt_core.data.anatomy import function_graph, overhead_bytes, random_ops, still, tensor_bytes
from tfopt_core.data.batching import Batch, KerasShuffle, PaddedBatch, RaggedBatch, Unbatch, Window
from tfopt_core.data.dissect.split_map import split_map
from tfopt_core.data.dissect.walk import datasets, has_stage, stage_names
from tfopt_core.data.functions import (
    Filter,
    Interleave,
    Map,
    MapBatches,
    MapExamples,
    Opaque,
    TakeWhile,
    all_ops,
    changing_ops,
    function_name,
    place_of,
)
from tfopt_core.data.lower import element_spec, known_count, lower_plan
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.resident import COMPUTED_FROM, Held, Resident, why_not_gathered
from tfopt_core.data.source import Source
from tfopt_core.data.stage import (
    Count,
    ModelStage,
    Order,
    ParallelStage,
    SameElements,
    Stage,
    Yields,
)
from tfopt_core.data.stages import (
    NEW_SEED,
    UNKNOWN_COUNT_BUFFER,
    Autotune,
    Cache,
    EvenSteps,
    Options,
    Part,
    Prefetch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Take,
    in_any_order,
    rows_of,
)

__all__ = [
    "COMPUTED_FROM",
    "NEW_SEED",
    "Autotune",
    "Batch",
    "Cache",
    "Count",
    "DataPlan",
    "EvenSteps",
    "Filter",
    "Held",
    "Interleave",
    "KerasShuffle",
    "Map",
    "MapBatches",
    "MapExamples",
    "ModelStage",
    "Opaque",
    "Options",
    "Order",
    "PaddedBatch",
    "ParallelStage",
    "Part",
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
    "UNKNOWN_COUNT_BUFFER",
    "Unbatch",
    "Window",
    "Yields",
    "all_ops",
    "changing_ops",
    "datasets",
    "element_spec",
    "function_graph",
    "function_name",
    "has_stage",
    "in_any_order",
    "known_count",
    "lower_plan",
    "overhead_bytes",
    "split_map",
    "place_of",
    "random_ops",
    "rows_of",
    "stage_names",
    "still",
    "tensor_bytes",
    "why_not_gathered",
]
