"""What a call of `fit` starts from, so that it can be made again in the same process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.errors import CannotShare
from tfopt_core.private_api import why_without
from tfopt_core.training.layers import nested_layers
from tfopt_core.training.scripts.fit_workload import FitWorkload

# Data of these origins are changed by being read.
CHANGED_BY_READING = ("generator", "pydataset")
# Two gigabytes of float32.
MOST_NUMBERS = 5 * 10**8


@attrs.define(eq=False)
class FitState:
    """The values of a model's variables before its fit, and what the model consists of.

    The order of a data set that shuffles anew in each epoch goes on: it does not begin again.
    """

    workload: FitWorkload
    _values: Sequence[tuple[Any, Any]]
    _optimizer: Any
    _policy: Any
    _parts: Any = None

    @classmethod
    def of(cls, workload: FitWorkload) -> FitState:
        """Return the state of a call before it is made. The optimizer's variables are made now.

        :raises CannotShare: if the call cannot be made again as it would be in a new process.
        """
        import keras

        model = workload.call.model
        _check_data(workload)
        if not model.built:
            raise CannotShare("the model gets its weights in its first step")
        if why_without("nested-layers"):
            raise CannotShare(why_without("nested-layers"))
        own = [one for one in vars(model).values() if isinstance(one, keras.optimizers.Optimizer)]
        if any(one is not model.optimizer for one in own) or not own:
            raise CannotShare("the model has optimizers of its own")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = [*model.variables, *model.optimizer.variables]
        if sum(math.prod(one.shape) for one in variables) > MOST_NUMBERS:
            raise CannotShare("the model is too large to be kept twice")
        values = [(one, keras.ops.convert_to_numpy(one)) for one in variables]
        return cls(workload, values, model.optimizer, keras.config.dtype_policy())

    def note_parts(self) -> None:
        """Note what the model consists of: later tasks must leave it so."""
        self._parts = _parts(self.workload.call.model, self._optimizer)

    def restore(self) -> None:
        """Set all variables as they were, and drop what was traced.

        :raises CannotShare: if a task has changed what the model consists of.
        """
        import keras

        model, compiled = self.workload.call.model, self.workload.compiled
        compiled.put_back(model)
        compiled.forget_optimizer()
        compiled.function_cache.forget()
        model.optimizer = self._optimizer
        model.train_function = model.test_function = model.predict_function = None
        model.stop_training = False
        parts = _parts(model, self._optimizer)
        if parts != self._parts or keras.config.dtype_policy() != self._policy:
            raise CannotShare("a plugin that was tried before has changed the model for good")
        for variable, value in self._values:
            variable.assign(value)


def _check_data(workload: FitWorkload) -> None:
    for split in workload.data.splits:
        origin = workload.data.plan(split).source.origin
        if workload.data.can_be_read_once(split) or origin in CHANGED_BY_READING:
            raise CannotShare("the data are changed by being read")


def _parts(model: Any, optimizer: Any) -> Any:
    """Return the layers of a model with their precision and the names of their attributes."""
    layers = [
        (id(part), type(part), part.dtype_policy.name, part.trainable, frozenset(vars(part)))
        for part in (model, *nested_layers(model))
    ]
    return layers, type(optimizer), frozenset(vars(optimizer))
