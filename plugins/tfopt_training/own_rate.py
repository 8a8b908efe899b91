"""The learning rate of a Keras optimizer: read before the training, fixed after it."""

from __future__ import annotations

import warnings
from typing import Any

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import keras, why_without


def own_rate(optimizer: Any) -> float:
    """The constant learning rate of what `compile` takes as an optimizer; nothing is changed.

    :param optimizer: a name, a function that returns an optimizer, or an optimizer.
    :raises PluginRefused: if it has a schedule of its own.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer = optimizer() if callable(optimizer) else keras.optimizers.get(optimizer)
    name = schedule_name(optimizer)
    if name is not None:
        raise PluginRefused(
            f"the workload's optimizer has a schedule of its own ({name}); set peak to replace it"
        )
    # not float(optimizer.learning_rate), which fails for a variable with replicas
    return float(inner(optimizer).get_config()["learning_rate"])


def schedule_name(optimizer: Any) -> str | None:
    """The class of the optimizer's learning-rate schedule, None for a constant rate."""
    rate = inner(optimizer).get_config()["learning_rate"]
    return None if isinstance(rate, float | int) else str(rate["class_name"])


def inner(optimizer: Any) -> Any:
    """The optimizer without the loss scaling around it."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return optimizer.inner_optimizer
    return optimizer


def with_fixed_rate(model: Any) -> Any:
    """Give the model's optimizer its present learning rate as a number, all else kept.

    Keras lets nobody set the rate of an optimizer that was made with a schedule, so it is made
    anew and its slots are copied.
    """
    if schedule_name(model.optimizer) is None:
        return model
    old = inner(model.optimizer)
    rate = float(old.learning_rate)
    new = type(old).from_config({**old.get_config(), "learning_rate": rate})
    new.build(model.trainable_variables)
    kept = [variable for variable in new.variables if variable is not new.learning_rate]
    for variable, value in zip(kept, old.variables, strict=True):
        variable.assign(value)
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        model.optimizer.inner_optimizer = new
    else:
        model.optimizer = new
    # what is saved as the model's compile options names the optimizer a second time
    missing = why_without("optimizer-replaced")
    if missing:
        warnings.warn(f"tfopt: {missing}", stacklevel=2)
    elif model._compile_config.config["optimizer"] is old:
        model._compile_config.config["optimizer"] = new
    model.train_function = None  # a traced one would go on with the old optimizer
    return model
