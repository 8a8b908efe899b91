"""The one place that touches private attributes of TensorFlow's data side.

What data sets keep of their arguments, their class names and the registry of ops are no public
interface; tests assert for the installed TensorFlow that they still say what is read here. Where
they do not, a data set is taken as it is: opaque, and of unknown make. Which members these are, and
what is lost where one is missing, stands in `tfopt_core.private_api`.
"""

from tfopt_core.data.dissect.apart import taken_apart
from tfopt_core.data.dissect.functions import Taken
from tfopt_core.data.dissect.rebuild import shuffled
from tfopt_core.data.dissect.seeds import passes_to_read
from tfopt_core.data.dissect.walk import (
    datasets,
    graphs,
    has_stage,
    is_batched,
    known_cardinality,
    stage_names,
)

__all__ = [
    "Taken",
    "datasets",
    "graphs",
    "has_stage",
    "is_batched",
    "known_cardinality",
    "passes_to_read",
    "shuffled",
    "stage_names",
    "taken_apart",
]
