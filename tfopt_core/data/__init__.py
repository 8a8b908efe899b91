"""The input pipeline as data: plans, their stages, and how they become `tf.data`.

What is listed here is public: plugins import it, and nothing below it. No TensorFlow is imported.
"""

from tfopt_core.data.anatomy import StageFacts, stage_facts
from tfopt_core.data.autotune_model import tuning_of
from tfopt_core.data.determinism import function_graph, random_ops
from tfopt_core.data.dissect import datasets, has_stage, stage_names
from tfopt_core.data.functions import function_name, place_of
from tfopt_core.data.graphs import all_ops, changing_ops
from tfopt_core.data.lower import element_spec, lower_plan
from tfopt_core.data.ordering import in_any_order
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.sampling import overhead_bytes, still, tensor_bytes
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    Cache,
    Count,
    EvenSteps,
    Filter,
    Held,
    Interleave,
    Map,
    MapBatches,
    MapExamples,
    ModelStage,
    Opaque,
    Options,
    Order,
    PaddedBatch,
    ParallelStage,
    Part,
    PartOfBatch,
    PartOfExamples,
    PartOfSource,
    Prefetch,
    RaggedBatch,
    Repeat,
    Resident,
    SameElements,
    Shard,
    Shuffle,
    Skip,
    Source,
    Stage,
    Take,
    TakeWhile,
    Unbatch,
    Window,
    Yields,
)
from tfopt_core.data.stages.parts import rows_of
from tfopt_core.data.stages.resident import COMPUTED_FROM, why_not_gathered
from tfopt_core.data.stages.selecting import NEW_SEED, UNKNOWN_COUNT_BUFFER

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
    "StageFacts",
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
    "lower_plan",
    "overhead_bytes",
    "place_of",
    "random_ops",
    "rows_of",
    "stage_facts",
    "stage_names",
    "still",
    "tensor_bytes",
    "tuning_of",
    "why_not_gathered",
]
