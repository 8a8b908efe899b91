"""Another global batch size than the workload's, and what that does to the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginRefused
from tfopt_core.hooks.values import TrainingOptions
from tfopt_core.lazy import keras

RateRule = Literal["keep", "linear", "sqrt"]
# What Keras' own schedules call their rates; all else in them counts steps or is relative.
_RATES = ("initial_learning_rate", "warmup_target", "end_learning_rate", "values")


def rate_factor(rule: RateRule, ratio: float) -> float:
    """Return what the learning rate is multiplied by where the batch size is by `ratio`.

    "linear" is Goyal et al. 2017, "sqrt" Krizhevsky 2014.
    """
    return {"keep": 1.0, "linear": float(ratio), "sqrt": math.sqrt(ratio)}[rule]


def with_batch_size(plan: DataPlan, resized: Callable[[int], int], mend: str) -> DataPlan:
    """Return the training data's plan with batches of another size.

    :param resized: a function from the present size to the new one.
    :param mend: what to do where the size cannot be changed.
    :raises PluginRefused: for batches that are made where tfopt does not see it, or that a map
        whose function has the attribute `filled_to` fills up to their present size.
    """
    found = plan.batching
    if found is None:
        raise PluginRefused(
            "the workload's batches are made where tfopt does not see it, so their size cannot be "
            f"changed; {mend}"
        )
    place, stage = found
    functions = [getattr(one, "function", None) for one in plan.stages[place + 1 :]]
    filled = next((size for f in functions if (size := getattr(f, "filled_to", None))), None)
    if filled is not None:
        raise PluginRefused(
            f"another plugin fills the last batch up to {filled} examples already; move that one "
            'behind this, or set its last = "drop"'
        )
    if stage.of is not None:
        raise PluginRefused(f"the batches are shared out already; {mend}")
    return plan.replace(place, attrs.evolve(stage, size=resized(stage.size)))


def with_scaled_rate(options: TrainingOptions, rule: RateRule, ratio: float) -> TrainingOptions:
    """Return the options with the optimizer's learning rate, or its schedule's, scaled by the rule.

    Call it inside the strategy's scope: the optimizer is made anew.

    :raises PluginRefused: where another plugin planned a schedule before, or the workload's own
        schedule is of a class whose rates are not known.
    """
    factor = rate_factor(rule, ratio)
    if factor == 1:
        return options
    if options.schedule is not None:
        raise PluginRefused(
            f'learning_rate = "{rule}" must scale the rate before a schedule is planned from it; '
            "move the plugin that plans it down, or set its peak yourself and keep the rate here"
        )
    return attrs.evolve(options, optimizer=_scaled(options.optimizer, factor))


def _scaled(optimizer: Any, factor: float) -> Any:
    """Return what `compile` takes as an optimizer, made anew with another learning rate."""
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
    """Return the scaled rate, or the configuration of a schedule as Keras keeps it."""
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
