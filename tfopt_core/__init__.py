"""tfopt: stacks of training optimizations, measured one by one.

What authors of plugins and workloads import; and `apply`, `stacked` and `optimize`, for notebooks
and programs. Nothing here imports TensorFlow or NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from tfopt_core.training.made import LoopMade, loop_made
from tfopt_core.training.workload import Workload

if TYPE_CHECKING:
    from tfopt_core.api import Stacked, apply, optimize, stacked

__version__ = "0.1.0"

# From Python; imported when they are asked for, since they know everything below.
_API = ("Stacked", "apply", "optimize", "stacked")

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
    "LoopMade",
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
    "loop_made",
    "optimize",
    "stacked",
]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(importlib.import_module("tfopt_core.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
