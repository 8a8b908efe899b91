"""Everything that a plugin imports, but for the stages of a data plan: see `tfopt_core.data`."""

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginRefused, WorkloadError, describe, did_you_mean
from tfopt_core.hooks import (
    Change,
    Cluster,
    ClusterOptions,
    Control,
    Diagnosis,
    Effect,
    Finding,
    FoundTable,
    Gpu,
    Machine,
    PrecisionPolicy,
    Probe,
    ProbedTraining,
    RunContext,
    RuntimeOptions,
    Serve,
    TrainingOptions,
    hookimpl,
)
from tfopt_core.hooks.helpers import number_or, size_in_words, user_cache_folder
from tfopt_core.hooks.machine import process_cpus
from tfopt_core.hooks.specs import Split
from tfopt_core.private_api import why_without
from tfopt_core.training.batch_rule import (
    RateRule,
    rate_factor,
    with_batch_size,
    with_scaled_rate,
)
from tfopt_core.training.callbacks import batch_callbacks
from tfopt_core.training.graphs.optimized_step import OptimizedNodes, optimized_step
from tfopt_core.training.layer_graph import in_order, node_of, parents
from tfopt_core.training.layers import TRAINED_PART, nested_layers, trained_part
from tfopt_core.training.loops.report import LoopReport, loop_report
from tfopt_core.training.loss_scaling import overflow_steps
from tfopt_core.training.optimizers import optimizers_of
from tfopt_core.training.replay.digests import example_digests

__all__ = [
    # the hooks, and what they take and return
    "hookimpl",
    "Change",
    "Cluster",
    "ClusterOptions",
    "Control",
    "DataPlan",
    "Effect",
    "FoundTable",
    "Gpu",
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
    # a model, its callbacks, and the loop that trained it
    "LoopReport",
    "OptimizedNodes",
    "batch_callbacks",
    "in_order",
    "loop_report",
    "nested_layers",
    "TRAINED_PART",
    "trained_part",
    "overflow_steps",
    "optimized_step",
    "optimizers_of",
    "node_of",
    "parents",
    "why_without",
    # another batch size, and its learning rate
    "RateRule",
    "rate_factor",
    "with_batch_size",
    "with_scaled_rate",
    # settings and messages
    "describe",
    "example_digests",
    "did_you_mean",
    "number_or",
    "process_cpus",
    "size_in_words",
    "user_cache_folder",
]
