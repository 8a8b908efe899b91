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
    from tfopt_core.data import DataPlan
    from tfopt_core.errors import PluginRefused, TfoptError
    from tfopt_core.hooks import (
        Change,
        Cluster,
        ClusterOptions,
        ComparedLoop,
        Control,
        Diagnosis,
        Effect,
        Finding,
        Gpu,
        Machine,
        PrecisionPolicy,
        Probe,
        RunContext,
        RuntimeOptions,
        Serve,
        TrainingOptions,
        hookimpl,
    )
    from tfopt_core.training.callbacks import EVERY_BATCH, batch_callbacks
    from tfopt_core.training.loops.report import LoopReport, loop_report
    from tfopt_core.training.workload import Workload

# Where the names come from.
_PLACES = {
    "tfopt_core.api": ("Stacked", "apply", "optimize", "stacked"),
    "tfopt_core.data": ("DataPlan",),
    "tfopt_core.errors": ("PluginRefused", "TfoptError"),
    "tfopt_core.hooks": (
        "Change", "Cluster", "ClusterOptions", "ComparedLoop", "Control", "Diagnosis", "Effect",
        "Finding", "Gpu", "Machine", "PrecisionPolicy", "Probe", "RunContext", "RuntimeOptions",
        "Serve", "TrainingOptions", "hookimpl",
    ),
    "tfopt_core.training.callbacks": ("EVERY_BATCH", "batch_callbacks"),
    "tfopt_core.training.loops.report": ("LoopReport", "loop_report"),
    "tfopt_core.training.workload": ("Workload",),
}  # fmt: skip

__all__ = [
    "EVERY_BATCH",
    "Change",
    "Cluster",
    "ClusterOptions",
    "ComparedLoop",
    "Control",
    "DataPlan",
    "Diagnosis",
    "Effect",
    "Finding",
    "Gpu",
    "LoopReport",
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
    "apply",
    "batch_callbacks",
    "hookimpl",
    "loop_report",
    "optimize",
    "stacked",
]


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(place), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
