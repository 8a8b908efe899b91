"""The global batch over several replicas, and what that does to the learning rate."""

from __future__ import annotations

import math
from typing import Any, Literal

import attrs

from tfopt_core import DataPlan, PluginRefused, RunContext, TrainingOptions
from tfopt_core.data import Batch

BatchRule = Literal["global", "per-replica"]
RateRule = Literal["keep", "linear", "sqrt"]
BATCH_RULES: tuple[BatchRule, ...] = ("global", "per-replica")
RATE_RULES: tuple[RateRule, ...] = ("keep", "linear", "sqrt")
BATCH_HELP = (
    "What the recipe's batch size means: global is that of a step, shared out among the replicas, "
    "so the training is that of one device; per-replica multiplies it by their number."
)
RATE_HELP = (
    "The learning rate under per-replica: keep leaves it; linear multiplies it by the number of "
    "replicas (Goyal et al. 2017), sqrt by the root of that (Krizhevsky 2014)."
)
MEND = 'set batch_size = "global" and a larger workload.batch_size'
# What Keras' own schedules call their rates; all else in them counts steps or is relative.
_RATES = ("initial_learning_rate", "warmup_target", "end_learning_rate", "values")


def check_rules(batch_size: BatchRule, learning_rate: RateRule) -> None:
    """:raises ValueError: for a learning rate that is raised without the batch."""
    if batch_size == "global" and learning_rate != "keep":
        raise ValueError(
            f'learning_rate = "{learning_rate}" goes with a larger batch only; set '
            'batch_size = "per-replica"'
        )


def rate_factor(rule: RateRule, replicas: int) -> float:
    """What the learning rate is multiplied by where the batch is by the number of replicas."""
    return {"keep": 1.0, "linear": float(replicas), "sqrt": math.sqrt(replicas)}[rule]


def with_larger_batch(plan: DataPlan, factor: int, run: RunContext) -> DataPlan:
    """The training data's plan with batches `factor` times as large.

    :raises PluginRefused: for batches that are made where tfopt does not see it, or whose size
        another plugin relies on.
    """
    place = plan.batch_place
    if place is None:
        raise PluginRefused(
            "the workload's batches are made where tfopt does not see it, so they cannot be made "
            f"larger; {MEND}"
        )
    if run.settings.get("batch", {}).get("last") == "pad":
        raise PluginRefused(
            'the plugin "batch" fills the last batch up to the size before; set its last = "drop"'
        )
    stage = plan.stages[place]
    assert isinstance(stage, Batch)
    if stage.of is not None:
        raise PluginRefused(f"the batches are shared out already; {MEND}")
    return plan.replace(place, attrs.evolve(stage, size=stage.size * factor))


def with_scaled_rate(options: TrainingOptions, rule: RateRule, replicas: int) -> TrainingOptions:
    """The options with the optimizer's learning rate, or its schedule's, scaled by the rule.

    Call it inside the strategy's scope: the optimizer is made anew.

    :raises PluginRefused: where another plugin planned a schedule before, or the workload's own
        schedule is of a class whose rates are not known.
    """
    factor = rate_factor(rule, replicas)
    if factor == 1:
        return options
    if options.schedule is not None:
        raise PluginRefused(
            f'learning_rate = "{rule}" must scale the rate before a schedule is planned from it; '
            "move the plugin that plans it down, or set its peak yourself and keep the rate here"
        )
    return attrs.evolve(options, optimizer=_scaled(options.optimizer, factor))


def _scaled(optimizer: Any, factor: float) -> Any:
    """What `compile` takes as an optimizer, made anew with another learning rate."""
    import keras

    if not isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer = optimizer() if callable(optimizer) else keras.optimizers.get(optimizer)
    config = optimizer.get_config()
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = _scaled(optimizer.inner_optimizer, factor)
        config["inner_optimizer"] = keras.saving.serialize_keras_object(inner)
    else:
        config["learning_rate"] = _scaled_rate(config["learning_rate"], factor)
    return type(optimizer).from_config(config)


def _scaled_rate(rate: Any, factor: float) -> Any:
    """A rate, or the configuration of a schedule as Keras keeps it."""
    if isinstance(rate, int | float):
        return rate * factor
    if rate.get("module") != "keras.optimizers.schedules":
        raise PluginRefused(
            f"the workload's optimizer has a schedule of its own ({rate['class_name']}), whose "
            'rates tfopt cannot scale; set learning_rate = "keep" and scale it there'
        )
    config = dict(rate["config"])
    for name in _RATES:
        if config.get(name) is not None:
            value = config[name]
            many = isinstance(value, list | tuple)
            config[name] = [one * factor for one in value] if many else value * factor
    return {**rate, "config": config}


def rate_in_words(rule: RateRule, replicas: int) -> str:
    """`learning rate x 2 (linear)`."""
    if rule == "keep":
        return "learning rate kept"
    return f"learning rate x {rate_factor(rule, replicas):.3g} ({rule})"
