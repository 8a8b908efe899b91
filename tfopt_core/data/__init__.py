"""The input pipeline as data: plans, their stages, and how they become `tf.data`."""

from tfopt_core.data.plan import DataPlan
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    Cache,
    Filter,
    Interleave,
    Map,
    MapBatches,
    MapExamples,
    Opaque,
    Prefetch,
    Repeat,
    Shuffle,
    Source,
    Stage,
    Take,
)

__all__ = [
    "Autotune",
    "Batch",
    "Cache",
    "DataPlan",
    "Filter",
    "Interleave",
    "Map",
    "MapBatches",
    "MapExamples",
    "Opaque",
    "Prefetch",
    "Repeat",
    "Shuffle",
    "Source",
    "Stage",
    "Take",
]
