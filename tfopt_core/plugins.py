"""What a plugin imports, but for the stages of a data plan: see `tfopt_core.data`."""

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginRefused, WorkloadError
from tfopt_core.hooks.context import (
    Cluster,
    ClusterOptions,
    Probe,
    ProbedTraining,
    RunContext,
    Serve,
)
from tfopt_core.hooks.diagnosis import Diagnosis, Finding
from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.plugin_class import Plugin, plugin, setting
from tfopt_core.hooks.specs import Split, hookimpl
from tfopt_core.hooks.values import (
    Change,
    Control,
    Effect,
    FoundTable,
    PrecisionPolicy,
    RuntimeOptions,
    TrainingOptions,
)

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
