"""Take a given data set apart into stages, through private attributes of tf.data.

Tests assert for the installed TensorFlow that these attributes mean what is read here. Where one is
missing, a data set stays in one piece, as an opaque source. `tfopt_core.private_api` lists them,
and what is lost without each.
"""

from tfopt_core.data.dissect.apart import taken_apart
from tfopt_core.data.dissect.functions import TracedFunction
from tfopt_core.data.dissect.rebuild import shuffled
from tfopt_core.data.dissect.seeds import passes_to_read, reshuffling, seeds_of
from tfopt_core.data.dissect.walk import (
    datasets,
    graphs,
    has_stage,
    is_batched,
    known_cardinality,
    stage_names,
)

__all__ = [
    "TracedFunction",
    "datasets",
    "graphs",
    "has_stage",
    "is_batched",
    "known_cardinality",
    "passes_to_read",
    "reshuffling",
    "seeds_of",
    "shuffled",
    "stage_names",
    "taken_apart",
]
