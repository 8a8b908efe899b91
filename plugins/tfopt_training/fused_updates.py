"""Replace the updates of a model's optimizers by kernels while a step is traced."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs

from tfopt_core.toolkit import optimizers_of
from tfopt_training.own_rate import inner
from tfopt_training.update_kernels import Kernels, Update, kernels_of


@attrs.define(eq=False)
class FusedUpdates:
    """How the variables of a model were updated when its step was traced.

    :param min_elements: of the variables whose update is replaced.
    :param whole: the names of those that one kernel updates.
    :param rows: the names of those that are updated by the rows of a gradient.
    :param reasons: why another variable keeps Keras' update, or an optimizer all of its, by name.
    """

    min_elements: int
    whole: dict[str, None] = attrs.field(factory=dict)
    rows: dict[str, None] = attrs.field(factory=dict)
    reasons: dict[str, str] = attrs.field(factory=dict)
    _zeros: dict[tuple[int, ...], Any] = attrs.field(factory=dict)

    @contextmanager
    def within(self, model: Any) -> Iterator[None]:
        """Replace the updates of the model's optimizers in this block, which traces a step."""
        compiled = bool(model.jit_compile)
        with ExitStack() as stack:
            for optimizer in map(inner, optimizers_of(model)):
                kernels = kernels_of(optimizer)
                if isinstance(kernels, str):
                    self.reasons[optimizer.name] = kernels
                else:
                    stack.enter_context(self._replaced(optimizer, kernels, compiled))
            yield

    @contextmanager
    def _replaced(self, optimizer: Any, kernels: Kernels, compiled: bool) -> Iterator[None]:
        own = optimizer.update_step

        def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
            import tensorflow as tf

            name = _name(optimizer, variable)
            by_rows = isinstance(gradient, tf.IndexedSlices)
            kernel = kernels.suited(by_rows, compiled)
            reason = kernel if isinstance(kernel, str) else why_own(variable, self.min_elements)
            if reason or isinstance(kernel, str):
                self.reasons[name] = reason
                own(gradient, variable, learning_rate)
                return
            (self.rows if by_rows else self.whole)[name] = None
            kernel(Update.of(optimizer, gradient, variable, learning_rate, self._zeros_for))

        # past Keras, which would track it as state
        vars(optimizer)["update_step"] = update_step
        try:
            yield
        finally:
            del vars(optimizer)["update_step"]

    def _zeros_for(self, variable: Any) -> Any:
        """Return zeros of the shape of a variable, made once."""
        import tensorflow as tf

        shape = tuple(variable.shape)
        if shape not in self._zeros:
            # not within the graph, which would fill them in every step
            with tf.init_scope():
                self._zeros[shape] = tf.zeros(shape)
        return self._zeros[shape]


def _name(optimizer: Any, variable: Any) -> str:
    known = optimizer._trainable_variables[optimizer._get_variable_index(variable)]
    return str(getattr(known, "path", variable.name))


def why_own(variable: Any, min_elements: int) -> str:
    """Return why a variable keeps Keras' update whatever the optimizer, "" if it need not."""
    import tensorflow as tf

    if variable.dtype != tf.float32:
        return f"the kernels are for float32, not for {variable.dtype.name}"
    if math.prod(variable.shape) < min_elements:
        return f"fewer than {min_elements:,} elements"
    return ""


def fused_step(
    train_step: Callable[..., Any], model: Any, updates: FusedUpdates
) -> Callable[..., Any]:
    """Return the train step with the updates of the model's optimizers replaced."""

    def step(data: Any) -> Any:
        with updates.within(model):
            return train_step(data)

    return step
