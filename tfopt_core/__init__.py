"""tfopt: stacks of training optimizations, measured one by one.

What authors of workloads import; and `apply`, `stacked` and `optimize`, for notebooks and programs.
Authors of plugins import `tfopt_core.plugins`. Nothing here imports TensorFlow or NumPy, and a name
is imported once it is asked for: `python -m tfopt_core` starts here, with the working directory
first on its import path.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfopt_core.version import __version__ as __version__

if TYPE_CHECKING:
    from tfopt_core.api import Stacked, apply, optimize, stacked
    from tfopt_core.data import DataPlan
    from tfopt_core.errors import TfoptError, WorkloadError
    from tfopt_core.training.workload import Workload

# Where the names come from.
_PLACES = {
    "DataPlan": "tfopt_core.data",
    "Stacked": "tfopt_core.api",
    "TfoptError": "tfopt_core.errors",
    "Workload": "tfopt_core.training.workload",
    "WorkloadError": "tfopt_core.errors",
    "apply": "tfopt_core.api",
    "optimize": "tfopt_core.api",
    "stacked": "tfopt_core.api",
}

__all__ = [
    "DataPlan",
    "Stacked",
    "TfoptError",
    "Workload",
    "WorkloadError",
    "apply",
    "optimize",
    "stacked",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
