"""tfopt: stacks of training optimizations, measured one by one.

What authors of plugins and workloads import; and `apply`, `stacked` and `optimize`, for notebooks
and programs. Nothing here imports TensorFlow or NumPy, and a name is imported once it is asked for:
`python -m tfopt_core` starts here, with the working directory first on its import path.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfopt_core.version import __version__ as __version__

if TYPE_CHECKING:
    from tfopt_core.api import Stacked, apply, optimize, stacked
    from tfopt_core.errors import TfoptError, WorkloadError, did_you_mean
    from tfopt_core.plugins import (
        Change,
        Cluster,
        ClusterOptions,
        Control,
        DataPlan,
        Diagnosis,
        Effect,
        Finding,
        Machine,
        PluginRefused,
        PrecisionPolicy,
        Probe,
        RunContext,
        RuntimeOptions,
        Serve,
        TrainingOptions,
        hookimpl,
    )
    from tfopt_core.training.workload import Workload

__all__ = [
    "Change",
    "Cluster",
    "ClusterOptions",
    "Control",
    "DataPlan",
    "Diagnosis",
    "Effect",
    "Finding",
    "Machine",
    "PluginRefused",
    "PrecisionPolicy",
    "Probe",
    "RunContext",
    "RuntimeOptions",
    "Serve",
    "Stacked",
    "TfoptError",
    "TrainingOptions",
    "Workload",
    "WorkloadError",
    "apply",
    "did_you_mean",
    "hookimpl",
    "optimize",
    "stacked",
]


# Where the names come from; all others from `tfopt_core.plugins`.
_PLACES = {
    "Stacked": "tfopt_core.api",
    "TfoptError": "tfopt_core.errors",
    "Workload": "tfopt_core.training.workload",
    "WorkloadError": "tfopt_core.errors",
    "apply": "tfopt_core.api",
    "did_you_mean": "tfopt_core.errors",
    "optimize": "tfopt_core.api",
    "stacked": "tfopt_core.api",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES.get(name, "tfopt_core.plugins")), name)
