"""What a plugin imports, but for the stages of a data plan: see `tfopt_core.data`."""

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginRefused, WorkloadError
from tfopt_core.hooks import (
    Change,
    Cluster,
    ClusterOptions,
    Control,
    Diagnosis,
    Effect,
    Finding,
    FoundTable,
    Machine,
    Plugin,
    PrecisionPolicy,
    Probe,
    ProbedTraining,
    RunContext,
    RuntimeOptions,
    Serve,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.hooks.specs import Split

__all__ = [
    # the class, its hooks, and what they take and return
    "Plugin",
    "plugin",
    "setting",
    "hookimpl",
    "Change",
    "Cluster",
    "ClusterOptions",
    "Control",
    "DataPlan",
    "Effect",
    "FoundTable",
    "Machine",
    "PluginRefused",
    "PrecisionPolicy",
    "RunContext",
    "RuntimeOptions",
    "Serve",
    "Split",
    "TrainingOptions",
    "WorkloadError",
    # what `suggest` and `resolve` are asked with
    "Diagnosis",
    "Finding",
    "Probe",
    "ProbedTraining",
]
