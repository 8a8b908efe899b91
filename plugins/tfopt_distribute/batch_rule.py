"""The global batch over several replicas, and what that does to the learning rate."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, validators

from tfopt_core.plugins import DataPlan, RunContext
from tfopt_core.toolkit import RateRule, rate_factor, with_batch_size

BatchRule = Literal["global", "per-replica"]
MEND = 'set batch_size = "global" and a larger workload.batch_size'


def batch_size_setting() -> Any:
    """Return the setting `batch_size` of a strategy over several replicas."""
    return field(
        default="global",
        validator=validators.in_(("global", "per-replica")),
        metadata={
            "help": "What the recipe's batch size means: global is that of a step, shared out "
            "among the replicas, so the training is that of one device; per-replica multiplies it "
            "by their number."
        },
    )


def learning_rate_setting() -> Any:
    """Return the setting `learning_rate` that goes with `batch_size`."""
    return field(
        default="keep",
        validator=validators.in_(("keep", "linear", "sqrt")),
        metadata={
            "help": "The learning rate under per-replica: keep leaves it; linear multiplies it by "
            "the number of replicas (Goyal et al. 2017), sqrt by the root of that (Krizhevsky "
            "2014)."
        },
    )


def check_rules(batch_size: BatchRule, learning_rate: RateRule) -> None:
    """:raises ValueError: for a learning rate that is raised without the batch."""
    if batch_size == "global" and learning_rate != "keep":
        raise ValueError(
            f'learning_rate = "{learning_rate}" goes with a larger batch only; set '
            'batch_size = "per-replica"'
        )


def with_larger_batch(plan: DataPlan, factor: int) -> DataPlan:
    """Return the training data's plan with batches `factor` times as large.

    :raises PluginRefused: see `with_batch_size`.
    """
    return with_batch_size(plan, lambda size: size * factor, MEND)


def rules_in_words(batch_size: BatchRule, rate: RateRule, run: RunContext, replicas: int) -> str:
    """Return `, global batch 64, learning rate x 2 (linear)`, "" where the batch is as it was."""
    if batch_size == "global":
        return ""
    factor = "kept" if rate == "keep" else f"x {rate_factor(rate, replicas):.3g} ({rate})"
    return f", global batch {run.batch_size}, learning rate {factor}"
