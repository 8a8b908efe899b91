"""The update of one variable by TensorFlow's kernels, as Keras' optimizers compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.toolkit import keras, np, tf


@attrs.frozen(eq=False)
class Update:
    """The update of one variable, as Keras' `update_step` has it.

    :param gradient: a tensor, or `tf.IndexedSlices` in which a row may stand several times.
    :param variable: a `tf.Variable` of float32.
    :param rate: the learning rate, a scalar of float32.
    :param zeros_for: returns zeros of the shape of a variable, which nothing may change.
    """

    optimizer: Any
    gradient: Any
    variable: Any
    rate: Any
    zeros_for: Callable[[Any], Any]

    def slot(self, slots: Any) -> Any:
        """Return the optimizer's `tf.Variable` that belongs to the variable."""
        return slots[self.optimizer._get_variable_index(self.variable)].value

    def rows(self, values: Any) -> Any:
        """Return these values at the rows of the gradient."""
        return tf.IndexedSlices(values, self.gradient.indices)


@attrs.frozen(kw_only=True)
class Kernels:
    """The updates of an optimizer that replace those of Keras; None where Keras' own stays.

    :param whole: for a gradient of the whole variable.
    :param rows: for a gradient of some rows.
    :param compiled_rows: the same where XLA compiles the step.
    :param without: why there is none for a gradient that has none here.
    """

    whole: Callable[[Update], None] | None = None
    rows: Callable[[Update], None] | None = None
    compiled_rows: Callable[[Update], None] | None = None
    without: str = ""

    def suited(self, by_rows: bool, compiled: bool) -> Callable[[Update], None] | str:
        """Return the update for a gradient of rows or of the whole, or why Keras' own stays.

        :param compiled: whether XLA compiles the step.
        """
        if not by_rows and compiled:
            return "XLA fuses the update of a whole variable itself"
        kernel = (self.compiled_rows if compiled else self.rows) if by_rows else self.whole
        return kernel or self.without


def kernels_of(optimizer: Any) -> Kernels | str:
    """Return the kernels for an optimizer with its settings, or why it keeps its own updates."""
    kind, name = type(optimizer), type(optimizer).__name__
    if "update_step" in vars(optimizer):
        return f"this {name} has an update_step of its own"
    if kind in (keras.optimizers.Adam, keras.optimizers.AdamW):
        if optimizer.amsgrad:
            return f"with amsgrad {name} keeps another slot"
        if not (_within(optimizer.beta_1) and _within(optimizer.beta_2)):
            return f"{name} has a beta that is no number between 0 and 1"
        return Kernels(whole=_apply_adam, rows=_adam_rows, compiled_rows=_adam_compiled_rows)
    if kind is keras.optimizers.SGD:
        if not isinstance(optimizer.momentum, int | float):
            return "SGD has a momentum that is no number"
        if optimizer.momentum == 0:
            return Kernels(whole=_descent, without="without momentum Keras updates rows alone too")
        return Kernels(
            whole=_apply_momentum, rows=_momentum_rows, compiled_rows=_momentum_compiled_rows
        )
    if kind is keras.optimizers.RMSprop:
        if optimizer.centered or optimizer.momentum:
            return "RMSprop that is centered or has a momentum keeps another slot"
        if not isinstance(optimizer.rho, int | float):
            return "RMSprop has a rho that is no number"
        without = "without momentum RMSprop has no kernel"
        return Kernels(rows=_rmsprop_rows, compiled_rows=_rmsprop_rows, without=without)
    return f"the optimizer is {name}, and the kernels are those of Adam, AdamW, SGD and RMSprop"


def _within(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 1


def _complement(value: float) -> float:
    """Return 1 - value as a kernel computes it, in float32."""
    return float(np.float32(1) - np.float32(value))


def _adam_rows(update: Update) -> None:
    """Add the rows to the slots before one kernel lets all of them decay.

    Keras sums the gradients of a row that stands several times, and the squares of each.
    """
    optimizer, values = update.optimizer, update.gradient.values
    # divided by what the kernel multiplies them with
    first, second = (
        (1 - beta) / (1 - _complement(beta)) for beta in (optimizer.beta_1, optimizer.beta_2)
    )
    update.slot(optimizer._momentums).scatter_add(update.rows(values * first))
    update.slot(optimizer._velocities).scatter_add(update.rows(tf.square(values) * second))
    _apply_adam(update, update.zeros_for(update.variable))


def _apply_adam(update: Update, gradient: Any = None) -> None:
    optimizer = update.optimizer
    beta_1_power, beta_2_power = _powers(optimizer)
    tf.raw_ops.ResourceApplyAdam(
        var=update.variable.handle,
        m=update.slot(optimizer._momentums).handle,
        v=update.slot(optimizer._velocities).handle,
        beta1_power=beta_1_power,
        beta2_power=beta_2_power,
        lr=update.rate,
        beta1=optimizer.beta_1,
        beta2=optimizer.beta_2,
        epsilon=optimizer.epsilon,
        grad=update.gradient if gradient is None else gradient,
    )


def _powers(optimizer: Any) -> tuple[Any, Any]:
    """Return the betas to the power of the step, as Keras computes them."""
    step = tf.cast(optimizer.iterations + 1, tf.float32)
    beta_1, beta_2 = (
        tf.constant(beta, tf.float32) for beta in (optimizer.beta_1, optimizer.beta_2)
    )
    return tf.pow(beta_1, step), tf.pow(beta_2, step)


def _adam_compiled_rows(update: Update) -> None:
    """Let the slots decay, which XLA fuses, and add the rows in place."""
    optimizer, values = update.optimizer, update.gradient.values
    first, second = 1 - optimizer.beta_1, 1 - optimizer.beta_2
    momentum = update.slot(optimizer._momentums)
    velocity = update.slot(optimizer._velocities)
    momentum.assign_sub(momentum * first)
    momentum.scatter_add(update.rows(values * first))
    velocity.assign_sub(velocity * second)
    velocity.scatter_add(update.rows(tf.square(values) * second))
    beta_1_power, beta_2_power = _powers(optimizer)
    alpha = update.rate * tf.sqrt(1 - beta_2_power) / (1 - beta_1_power)
    update.variable.assign_sub(momentum * alpha / (tf.sqrt(velocity) + optimizer.epsilon))


def _descent(update: Update) -> None:
    tf.raw_ops.ResourceApplyGradientDescent(
        var=update.variable.handle, alpha=update.rate, delta=update.gradient
    )


def _momentum_rows(update: Update) -> None:
    """Add the rows to the slot before one kernel multiplies all of it."""
    optimizer = update.optimizer
    steps = update.gradient.values * update.rate
    update.slot(optimizer.momentums).scatter_sub(update.rows(steps / optimizer.momentum))
    _apply_momentum(update, update.zeros_for(update.variable))
    if optimizer.nesterov:
        update.variable.scatter_sub(update.rows(steps))


def _apply_momentum(update: Update, gradient: Any = None) -> None:
    optimizer = update.optimizer
    tf.raw_ops.ResourceApplyKerasMomentum(
        var=update.variable.handle,
        accum=update.slot(optimizer.momentums).handle,
        lr=update.rate,
        grad=update.gradient if gradient is None else gradient,
        momentum=tf.constant(optimizer.momentum, tf.float32),
        use_nesterov=bool(optimizer.nesterov),
    )


def _momentum_compiled_rows(update: Update) -> None:
    optimizer, variable = update.optimizer, update.variable
    steps = update.rows(update.gradient.values * update.rate)
    slot = update.slot(optimizer.momentums)
    slot.assign(slot * optimizer.momentum)
    slot.scatter_sub(steps)
    variable.assign_add(slot * optimizer.momentum if optimizer.nesterov else slot)
    if optimizer.nesterov:
        variable.scatter_sub(steps)


def _rmsprop_rows(update: Update) -> None:
    """Let the slot decay, and compute the roots of the gradient's rows alone."""
    optimizer, gradient = update.optimizer, update.gradient
    velocity = update.slot(optimizer._velocities)
    velocity.assign(velocity * optimizer.rho)
    velocity.scatter_add(update.rows(tf.square(gradient.values) * (1 - optimizer.rho)))
    roots = tf.sqrt(tf.gather(velocity, gradient.indices) + optimizer.epsilon)
    update.variable.scatter_sub(update.rows(update.rate * gradient.values / roots))
