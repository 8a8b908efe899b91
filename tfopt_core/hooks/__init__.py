"""The contract between core and plugins: hooks, values, the stack and its guards."""

from tfopt_core.hooks.context import (
    Cluster,
    ClusterOptions,
    Probe,
    ProbedTraining,
    RunContext,
    Serve,
)
from tfopt_core.hooks.diagnosis import Diagnosis, Finding
from tfopt_core.hooks.machine import Gpu, Machine, read_machine
from tfopt_core.hooks.plugin_class import Plugin, plugin, setting
from tfopt_core.hooks.specs import hookimpl
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
    "Change",
    "Cluster",
    "ClusterOptions",
    "Control",
    "Diagnosis",
    "Effect",
    "FoundTable",
    "Finding",
    "Gpu",
    "Machine",
    "Plugin",
    "PrecisionPolicy",
    "Probe",
    "ProbedTraining",
    "RunContext",
    "RuntimeOptions",
    "Serve",
    "TrainingOptions",
    "hookimpl",
    "plugin",
    "read_machine",
    "setting",
]
