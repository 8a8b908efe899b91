"""Train one fit of a script with the stack, timed and recorded by callbacks; what it starts from,
so that it can be made again in the same process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.errors import CannotShare
from tfopt_core.hooks.values import Effect
from tfopt_core.lazy import keras
from tfopt_core.private_api import why_without
from tfopt_core.scripts.call import lengthen
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.training.build import Built
from tfopt_core.training.clock import running_ns
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit_monitor import CutsShort, FitMonitor
from tfopt_core.training.messages import FitOutcome, Tell
from tfopt_core.training.model.layers import nested_layers
from tfopt_core.training.timed_function import TimedFunction

# Data of these origins are changed by being read.
CHANGED_BY_READING = ("generator", "pydataset")
# Attributes that `fit`, `evaluate` and `predict` add to a model, or take away.
OF_KERAS = frozenset(("history", "_eval_epoch_iterator", "stop_evaluating", "stop_predicting"))
# Two gigabytes of float32.
MOST_NUMBERS = 5 * 10**8


def train_fit(
    workload: FitWorkload,
    built: Built,
    started: int,
    report: Tell,
    cuts_short: CutsShort | None = None,
) -> tuple[FitOutcome, Any]:
    """Make the script's call of `fit` with the stack, and restore the model.

    :param started: `running_ns` when the script called `fit`.
    :param report, cuts_short: as `training.fit.train` takes them.
    :returns: its outcome, and the return value of Keras' `fit`.
    :raises PluginError: if a plugin's `on_epoch_end` fails.
    :raises Exception: whatever the call itself raises.
    """
    call, model = workload.call, built.model

    def validate() -> Any:
        return call.validate_again(workload.replaced(built))

    timed = TimedFunction(built, distribution_of(built), workload.compiled.function_cache)
    monitor = FitMonitor(timed, report, cuts_short, tolerant=True, epochs_done=call.initial_epoch)
    try:
        try:
            timed.install()
            timed.begin_fit()
            replaced, changed = workload.data_of_fit(built, timed)
            callbacks = monitor.callbacks(built.training.callbacks)
            with built.stack.changes_noted():
                history = call.make(callbacks, replaced, **changed)
        finally:
            ended = running_ns()
            timed.uninstall()
        repeated_epochs = lengthen(history, call, stopped=monitor.cut_short, validate=validate)
        outcome = attrs.evolve(
            monitor.outcome(started, ended, initial_epoch=call.initial_epoch),
            number=call.number,
            name=f"fit {call.number} of {type(model).__name__}",
            repeated_epochs=repeated_epochs,
            effects=built.stack.report_effects(built.run, model),
        )
    finally:
        # the script may continue after an exception
        workload.compiled.put_back(model)
    return outcome, history


def effects_of(fits: Sequence[FitOutcome]) -> dict[str, Effect]:
    """Return the effect of each plugin on all fits: applied if it was in any of them; the detail
    says why it was not in another one."""
    combined: dict[str, Effect] = {}
    for name in dict.fromkeys(name for fit in fits for name in fit.effects):
        effects = [(fit.number, fit.effects[name]) for fit in fits if name in fit.effects]
        applied = [effect for _, effect in effects if effect.applied]
        idle = [(number, effect) for number, effect in effects if not effect.applied]
        if not applied or not idle:
            combined[name] = effects[-1][1]
            continue
        number, effect = idle[0]
        more = f" nor in {len(idle) - 1} more" if len(idle) > 1 else ""
        combined[name] = Effect.applied_as(
            f"in {len(applied)} of {len(effects)} fits: {applied[-1].detail}; not in fit "
            f"{number}{more}: {effect.detail}"
        )
    return combined


@attrs.define(eq=False)
class FitState:
    """The values of a model's variables before its fit, and what the model consists of.

    The order of a data set that shuffles anew in each epoch goes on: it does not begin again.
    """

    workload: FitWorkload
    _values: Sequence[tuple[Any, Any]]
    _optimizer: Any
    _policy: Any
    _read: Any
    _parts: Any = None

    @classmethod
    def of(cls, workload: FitWorkload) -> FitState:
        """Return the state of a call before it is made. The optimizer's variables are made now.

        :raises CannotShare: if the call cannot be made again as it would be in a new process.
        """
        model = workload.call.model
        for split in workload.call.splits:
            origin = workload.data.plan(split).source.origin
            if split in workload.call.readers or origin in CHANGED_BY_READING:
                raise CannotShare("the data are changed by being read")
        if why_without("nested-layers"):
            raise CannotShare(why_without("nested-layers"))
        if not _has_its_weights(model):
            raise CannotShare("the model gets its weights in its first step")
        own = [one for one in vars(model).values() if isinstance(one, keras.optimizers.Optimizer)]
        if any(one is not model.optimizer for one in own) or not own:
            raise CannotShare("the model has optimizers of its own")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = [*model.variables, *model.optimizer.variables]
        if sum(math.prod(one.shape) for one in variables) > MOST_NUMBERS:
            raise CannotShare("the model is too large to be kept twice")
        values = [(one, keras.ops.convert_to_numpy(one)) for one in variables]
        read = workload.session.shuffle_draws.read.copy()
        return cls(workload, values, model.optimizer, keras.config.dtype_policy(), read)

    def note_parts(self) -> None:
        """Note what the model consists of: later tasks must leave it so."""
        self._parts = _parts(self.workload.call.model, self._optimizer)

    def restore(self) -> None:
        """Set all variables as they were, and drop what was traced.

        :raises CannotShare: if a task has changed what the model consists of.
        """
        model, compiled = self.workload.call.model, self.workload.compiled
        compiled.put_back(model)
        compiled.forget_fits()
        self.workload.session.shuffle_draws.read = self._read.copy()
        model.optimizer = self._optimizer
        model.train_function = model.test_function = model.predict_function = None
        model.stop_training = False
        parts = _parts(model, self._optimizer)
        if parts != self._parts or keras.config.dtype_policy() != self._policy:
            raise CannotShare("a plugin that was tried before has changed the model for good")
        for variable, value in self._values:
            variable.assign(value)


def _has_its_weights(model: Any) -> bool:
    """Return whether a model is built, or builds nothing of its own around layers that are."""
    if model.built or type(model).build is not keras.Model.build:
        return bool(model.built)
    layers = nested_layers(model)
    return bool(layers) and all(layer.built for layer in layers)


def _parts(model: Any, optimizer: Any) -> Any:
    """Return the layers of a model with their precision and the names of their attributes."""
    layers = [
        (id(part), type(part), part.dtype_policy.name, part.trainable, vars(part).keys() - OF_KERAS)
        for part in (model, *nested_layers(model))
    ]
    return layers, type(optimizer), frozenset(vars(optimizer))
