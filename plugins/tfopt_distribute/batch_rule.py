"""The global batch over several replicas, and what that does to the learning rate."""

from __future__ import annotations

import math
from typing import Any, Literal

import attrs
from attrs import field, validators

from tfopt_core.plugins import DataPlan, PluginRefused, RunContext, TrainingOptions

BatchRule = Literal["global", "per-replica"]
RateRule = Literal["keep", "linear", "sqrt"]
MEND = 'set batch_size = "global" and a larger workload.batch_size'
# What Keras' own schedules call their rates; all else in them counts steps or is relative.
_RATES = ("initial_learning_rate", "warmup_target", "end_learning_rate", "values")


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


def rate_factor(rule: RateRule, replicas: int) -> float:
    """What the learning rate is multiplied by where the batch is by the number of replicas."""
    return {"keep": 1.0, "linear": float(replicas), "sqrt": math.sqrt(replicas)}[rule]


def with_larger_batch(plan: DataPlan, factor: int, run: RunContext) -> DataPlan:
    """The training data's plan with batches `factor` times as large.

    :raises PluginRefused: for batches that are made where tfopt does not see it, or whose size
        another plugin relies on.
    """
    found = plan.batching
    if found is None:
        raise PluginRefused(
            "the workload's batches are made where tfopt does not see it, so they cannot be made "
            f"larger; {MEND}"
        )
    if run.settings.get("batch", {}).get("last") == "pad":
        raise PluginRefused(
            'the plugin "batch" fills the last batch up to the size before; set its last = "drop"'
        )
    place, stage = found
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


def rules_in_words(batch_size: BatchRule, rate: RateRule, run: RunContext, replicas: int) -> str:
    """Return `, global batch 64, learning rate x 2 (linear)`, "" where the batch is as it was."""
    if batch_size == "global":
        return ""
    factor = "kept" if rate == "keep" else f"x {rate_factor(rate, replicas):.3g} ({rate})"
    return f", global batch {run.batch_size}, learning rate {factor}"
