"""Train one fit of a script with the stack, timed and recorded by callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core.errors import TrainingDiverged
from tfopt_core.hooks import Effect
from tfopt_core.records.fit import FitOutcome
from tfopt_core.records.messages import Tell
from tfopt_core.training.build import Built
from tfopt_core.training.clock import running_ns
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit import outcome_of
from tfopt_core.training.fit_callbacks import (
    CutsShort,
    EpochHooks,
    StepTimer,
    fit_callbacks,
)
from tfopt_core.training.scripts.fit_workload import FitWorkload
from tfopt_core.training.scripts.planned_history import lengthen
from tfopt_core.training.timed_function import TimedFunction


@attrs.frozen(kw_only=True)
class FitOfScript:
    """The result of one call of `fit`.

    :param number: the number of the call, from 1.
    :param effects: the effect of each plugin, by name.
    :param diverged: the metric that was not finite, and when; None if all were.
    """

    number: int
    outcome: FitOutcome
    effects: dict[str, Effect]
    diverged: TrainingDiverged | None = None


def train_fit(
    workload: FitWorkload,
    built: Built,
    started: int,
    report: Tell,
    cuts_short: CutsShort | None = None,
) -> tuple[FitOfScript, Any]:
    """Make the script's call of `fit` with the stack, and restore the model.

    :param started: `running_ns` when the script called `fit`.
    :param report, cuts_short: as `training.fit.train` takes them.
    :returns: the result, and the return value of Keras' `fit`.
    :raises PluginError: if a plugin's `on_epoch_end` fails.
    :raises Exception: whatever the call itself raises.
    """
    call, model = workload.call, built.model

    def validate() -> Any:
        return call.validate_again(workload.replaced(built))

    timed = TimedFunction(built, distribution_of(built), workload.compiled.function_cache)
    timer = StepTimer(timed, report, cuts_short)
    hooks = EpochHooks(timer, report, tolerant=True, epochs_done=call.initial_epoch)
    try:
        try:
            timed.install()
            timed.begin_fit()
            replaced, class_weight = workload.data_of_fit(built, timed)
            history = call.make(
                fit_callbacks(built.training.callbacks, timer, hooks),
                replaced,
                class_weight=class_weight,
            )
        finally:
            ended = running_ns()
            timed.uninstall()
        repeated_epochs = lengthen(history, call, stopped=timer.cut_short, validate=validate)
        result = FitOfScript(
            number=call.number,
            outcome=attrs.evolve(
                outcome_of(hooks, started, ended, initial_epoch=call.initial_epoch),
                name=f"fit {call.number} of {type(model).__name__}",
                repeated_epochs=repeated_epochs,
            ),
            effects=built.stack.report_effects(built.run, model),
            diverged=hooks.diverged,
        )
    finally:
        # the script may continue after an exception
        workload.compiled.put_back(model)
    return result, history


def effects_of(fits: Sequence[FitOfScript]) -> dict[str, Effect]:
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
        combined[name] = Effect.applied_as(
            f"in {len(applied)} of {len(effects)} fits: {applied[-1].detail}; not in fit {number}: "
            f"{effect.detail}"
        )
    return combined
