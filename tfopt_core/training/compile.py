"""Pass `TrainingOptions` to Keras' `compile`."""

from __future__ import annotations

from typing import Any

from tfopt_core.hooks import PrecisionPolicy, TrainingOptions
from tfopt_core.training.loss_scaling import scaling_optimizer


def compile_model(model: Any, options: TrainingOptions, precision: PrecisionPolicy) -> None:
    """Compile the model. Must be called inside the strategy's scope."""
    import keras

    optimizer = with_changes(options, precision)
    if precision.loss_scale == "dynamic" and precision.scope == "layers":
        # Keras looks at the model's own policy, which then stays float32
        optimizer = scaling_optimizer(keras.optimizers.get(optimizer), precision)
    model.compile(
        optimizer=optimizer,
        loss=options.loss,
        metrics=list(options.metrics) or None,
        weighted_metrics=list(options.weighted_metrics) or None,
        loss_weights=options.loss_weights,
        jit_compile=options.jit_compile,
        # the steps of a call are no property of the model: they would count for `evaluate` too
        steps_per_execution=1,
        # Keras wraps the optimizer for dynamic loss scaling where the policy is mixed_float16
        auto_scale_loss=precision.loss_scale == "dynamic",
    )


def with_changes(
    options: TrainingOptions, precision: PrecisionPolicy, *, scaled: bool = True
) -> Any:
    """Return the optimizer, changed as the options and the policy ask for.

    :param scaled: whether to apply a fixed loss scale.
    """
    import keras

    changes: dict[str, Any] = {}
    if options.schedule is not None:
        changes["learning_rate"] = options.schedule
    if options.gradient_accumulation_steps is not None:
        changes["gradient_accumulation_steps"] = options.gradient_accumulation_steps
    if scaled and isinstance(precision.loss_scale, int | float):
        changes["loss_scale_factor"] = float(precision.loss_scale)
    if not changes:
        return options.optimizer
    optimizer = keras.optimizers.get(options.optimizer)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    return type(optimizer).from_config({**optimizer.get_config(), **changes})
