"""The input pipeline as data: plans, their stages, and how they become `tf.data`.

What is listed here is public: plugins import it, and nothing below it. No TensorFlow is imported.
"""

from tfopt_core.data.anatomy import StageFacts, stage_facts
from tfopt_core.data.autotune_model import tuning_of
from tfopt_core.data.determinism import function_graph, random_ops
from tfopt_core.data.dissect import datasets, has_stage, stage_names
from tfopt_core.data.dissect.repeating import keeps_order
from tfopt_core.data.functions import function_name
from tfopt_core.data.graphs import all_ops
from tfopt_core.data.lower import element_spec, lower_plan
from tfopt_core.data.plan import DataPlan
from tfopt_core.data.resident import COMPUTED_FROM, NEUTRAL, why_not_gathered
from tfopt_core.data.sampling import overhead_bytes, still, tensor_bytes
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    Cache,
    EvenSteps,
    Filter,
    Held,
    Interleave,
    Map,
    MapBatches,
    MapExamples,
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
    Source,
    Stage,
    Take,
    TakeWhile,
    Unbatch,
    Window,
)
from tfopt_core.data.stages.sharing import rows_of

__all__ = [
    "COMPUTED_FROM",
    "NEUTRAL",
    "Autotune",
    "Batch",
    "Cache",
    "DataPlan",
    "EvenSteps",
    "Filter",
    "Held",
    "Interleave",
    "Map",
    "MapBatches",
    "MapExamples",
    "Opaque",
    "Options",
    "PaddedBatch",
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
    "StageFacts",
    "Take",
    "TakeWhile",
    "Unbatch",
    "Window",
    "all_ops",
    "datasets",
    "element_spec",
    "function_graph",
    "function_name",
    "has_stage",
    "keeps_order",
    "lower_plan",
    "overhead_bytes",
    "random_ops",
    "rows_of",
    "stage_facts",
    "stage_names",
    "still",
    "tensor_bytes",
    "tuning_of",
    "why_not_gathered",
]
