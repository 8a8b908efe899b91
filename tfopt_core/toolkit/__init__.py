"""What the plugins and workloads that ship import of core, beside what is public.

Without a promise: names move and go as these need them.
"""

from tfopt_core.errors import describe, did_you_mean
from tfopt_core.hooks.machine import process_cpus
from tfopt_core.hooks.plugin_class import number_or, size_in_words
from tfopt_core.lazy import keras, np, tf
from tfopt_core.private_api import why_without
from tfopt_core.toolkit.batch_rule import RateRule, rate_factor, with_batch_size, with_scaled_rate
from tfopt_core.toolkit.graphs import optimized_graph, traced_step
from tfopt_core.toolkit.layer_graph import (
    TRAINED_PART,
    in_order,
    node_of,
    parents,
    trained_part,
    why_no_graph,
    with_members,
    without_members,
)
from tfopt_core.training.callbacks import batch_callbacks
from tfopt_core.training.loops.report import loop_report
from tfopt_core.training.model.layers import (
    method_replaced,
    nested_layers,
    optimizers_of,
    output_losses_weighed,
)
from tfopt_core.training.model.loss_scaling import overflow_steps
from tfopt_core.training.replay.data import example_digests

__all__ = [
    "batch_callbacks",
    "describe",
    "did_you_mean",
    "example_digests",
    "in_order",
    "keras",
    "loop_report",
    "method_replaced",
    "nested_layers",
    "node_of",
    "np",
    "number_or",
    "optimized_graph",
    "optimizers_of",
    "output_losses_weighed",
    "overflow_steps",
    "parents",
    "process_cpus",
    "rate_factor",
    "RateRule",
    "size_in_words",
    "tf",
    "TRAINED_PART",
    "traced_step",
    "trained_part",
    "why_no_graph",
    "why_without",
    "with_batch_size",
    "with_members",
    "with_scaled_rate",
    "without_members",
]
