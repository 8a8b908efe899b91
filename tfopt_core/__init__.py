"""tfopt: stacks of training optimizations, measured one by one.

What authors of plugins and workloads import. Nothing here imports TensorFlow or NumPy.
"""

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

__version__ = "0.1.0"

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
    "TfoptError",
    "TrainingOptions",
    "Workload",
    "batch_callbacks",
    "hookimpl",
    "loop_made",
]
