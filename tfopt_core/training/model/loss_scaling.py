"""Compile a model with its loss scale: also where a step of the user's own scales no loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.values import PrecisionPolicy, TrainingOptions
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import why_without
from tfopt_core.training.model.layers import map_gradient, method_replaced, optimizers_of


def compile_model(model: Any, options: TrainingOptions, precision: PrecisionPolicy) -> None:
    """Compile the model. Must be called inside the strategy's scope."""
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


_COUNTER = "_tfopt_overflows"


def scaling_optimizer(optimizer: Any, precision: PrecisionPolicy) -> Any:
    """Return the optimizer with the policy's loss scale, as `compile` sets it up for float16.

    :param optimizer: one of Keras; what it has learned is kept.
    """
    if precision.policy != "mixed_float16" or optimizer is None:
        return optimizer
    if isinstance(precision.loss_scale, int | float):
        optimizer.loss_scale_factor = float(precision.loss_scale)
        return optimizer
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if precision.loss_scale is None or scales:
        return optimizer
    return keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")


def with_scaled_step(
    model: Any, options: TrainingOptions, precision: PrecisionPolicy, replicas: int
) -> TrainingOptions:
    """Return the options with a step that scales the loss, where the model's own may not.

    Keras' own step calls `optimizer.scale_loss`. One of the user's that does not would train at
    1/32768 of the learning rate, since the optimizer divides by the scale in any case. So the
    gradients that its tape returns are scaled within the tape, and those that it applies again.

    :raises WorkloadError: where that is not possible, naming the model's class.
    """
    step = type(model).train_step
    if precision.policy != "mixed_float16" or precision.loss_scale is None:
        return options
    if step is keras.Model.train_step or step.__module__.startswith("keras."):
        return options
    if replicas > 1:
        if "scale_loss" in step.__code__.co_names:
            return options
        raise WorkloadError(
            f'the train_step of "{type(model).__name__}" never calls optimizer.scale_loss, and '
            "over several replicas tfopt cannot scale its loss for float16; scale it there, or "
            "take mixed_bfloat16"
        )
    return options.with_wrapped_step(lambda step: scaled_step(model, step))


def prepare_scaling(model: Any, precision: PrecisionPolicy, replicas: int) -> None:
    """Have the compiled model's loss scale count overflows.

    :raises WorkloadError: if the model's own step, which does not scale, has several optimizers.
    """
    if precision.policy != "mixed_float16" or precision.loss_scale is None:
        return
    others = [
        optimizer
        for optimizer in optimizers_of(model)[1:]
        if optimizer is not getattr(model.optimizer, "inner_optimizer", None)
    ]
    if others and "scale_loss" not in type(model).train_step.__code__.co_names:
        raise WorkloadError(
            f'"{type(model).__name__}" has {len(others)} optimizers beside that of compile, and '
            "float16 needs one loss scale for all; take mixed_bfloat16"
        )
    _count_overflows(model.optimizer, replicas)


def scaled_step(model: Any, train_step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a train step whose gradients are computed from the scaled loss.

    A step that calls `optimizer.scale_loss` itself is left as it is.
    """

    def step(*given: Any, **named: Any) -> Any:
        with _ScaledTape(model.optimizer).installed():
            return train_step(*given, **named)

    return step


@attrs.define(eq=False)
class _ScaledTape:
    """Scales within `tf.GradientTape.gradient` while a step is traced.

    The gradients that the step sees are unscaled, so that it may clip or add them. Before the
    optimizer divides them by its scale they are multiplied by it: a power of 2, so both are exact.
    """

    optimizer: Any
    by_step: bool = False
    finite: list[Any] = attrs.field(factory=list)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Replace the methods within the context."""
        optimizer, gradient = self.optimizer, tf.GradientTape.gradient
        scale_loss, apply = optimizer.scale_loss, optimizer.apply

        def noted(loss: Any) -> Any:
            self.by_step = True
            return scale_loss(loss)

        def scaled(
            tape: Any, target: Any, sources: Any, output_gradients: Any = None, **named: Any
        ) -> Any:
            if self.by_step:
                return gradient(tape, target, sources, output_gradients, **named)
            return self._gradient(gradient, tape, target, sources, output_gradients, named)

        def rescaled(grads: Any, trainable_variables: Any = None) -> Any:
            return apply(grads if self.by_step else self._rescaled(grads), trainable_variables)

        with (
            method_replaced(optimizer, "scale_loss", noted),
            method_replaced(optimizer, "apply", rescaled),
        ):
            tf.GradientTape.gradient = scaled
            try:
                yield
            finally:
                tf.GradientTape.gradient = gradient

    @property
    def scale(self) -> Any:
        """The factor by which the optimizer will divide."""
        optimizer = self.optimizer
        value = optimizer.loss_scale_factor
        if value is None and hasattr(optimizer, "initial_scale"):
            value = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
        return tf.cast(tf.convert_to_tensor(1.0 if value is None else value), tf.float32)

    def _gradient(
        self, original: Any, tape: Any, target: Any, sources: Any, seeds: Any, named: Any
    ) -> Any:
        scale = self.scale
        if seeds is None:
            seeds = tf.nest.map_structure(tf.ones_like, target)
        seeds = tf.nest.map_structure(lambda seed: seed * tf.cast(scale, seed.dtype), seeds)
        grads = original(tape, target, sources, output_gradients=seeds, **named)
        there = [part for part in tf.nest.flatten(grads) if part is not None]
        there = [getattr(part, "values", part) for part in there]  # of sparse gradients too
        self.finite += [tf.reduce_all(tf.math.is_finite(values)) for values in there]
        return tf.nest.map_structure(lambda part: _times(part, 1 / scale), grads)

    def _rescaled(self, grads: Any) -> list[Any]:
        """Return the gradients times the scale; NaN if any was not finite, whatever the step made
        of it since (clipping hides an infinity)."""
        here = tf.compat.v1.get_default_graph() if not tf.executing_eagerly() else None
        seen = [flag for flag in self.finite if here is None or flag.graph is here]
        factor = self.scale
        if seen:
            factor = tf.where(tf.reduce_all(tf.stack(seen)), factor, float("nan"))
        return [_times(gradient, factor) for gradient in grads]


def _times(gradient: Any, factor: Any) -> Any:
    return map_gradient(lambda values: values * tf.cast(factor, values.dtype), gradient)


def _count_overflows(optimizer: Any, replicas: int) -> None:
    """Have a dynamic loss scale count the steps that it skips since gradients overflowed."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer) or _COUNTER in vars(
        optimizer
    ):
        return
    if replicas > 1 or why_without("overflow-count"):
        return
    counter = tf.Variable(0, dtype=tf.int64, trainable=False)
    handle = optimizer._stateful_handle_non_finite_grads

    def counted() -> None:
        counter.assign_add(1)
        handle()

    # through vars(): Keras would track the variable and save it
    vars(optimizer).update({_COUNTER: counter, "_stateful_handle_non_finite_grads": counted})


def overflow_steps(optimizer: Any) -> int | None:
    """Return how many steps were skipped since gradients overflowed, None if not counted."""
    counter = vars(optimizer).get(_COUNTER)
    return None if counter is None else int(counter.numpy())
