"""Train one fit of a script with the stack, timed and recorded by a `FitMonitor`."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.errors import TrainingDiverged
from tfopt_core.hooks import Effect
from tfopt_core.records.fit import FitOutcome
from tfopt_core.records.messages import Tell
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit import outcome_of
from tfopt_core.training.fit_monitor import FitMonitor, Known
from tfopt_core.training.loops.exact_loops import Adapt
from tfopt_core.training.loops.switching import switching_loop
from tfopt_core.training.scripts.fit_workload import FitWorkload
from tfopt_core.training.scripts.planned_history import lengthen


@attrs.frozen(kw_only=True)
class FitOfScript:
    """What came of one call of `fit`.

    :param number: of the call, counted from 1.
    :param effects: every plugin's effect on it, by name.
    :param diverged: what metric was no finite number, and when; None if none was.
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
    known: Known | None = None,
    adapt: Adapt | None = None,
) -> tuple[FitOfScript, Any]:
    """Make the script's call with what the stack sets, and take it off again.

    :param started: `perf_counter_ns` when the script called `fit`.
    :param report, known, adapt: as `training.fit.train` takes them.
    :returns: what was seen, and what Keras' `fit` has returned.
    :raises PluginError: if a plugin's `on_epoch_end` fails.
    :raises Exception: whatever the call itself raises.
    """
    call, model = workload.call, built.model
    monitor = FitMonitor(
        built, report, known=known, kept=workload.compiled.kept, tolerant=True, one_call=True,
        validate_again=lambda: call.validate_again(workload.replaced(built)),
    )  # fmt: skip
    monitor.epochs_done = call.initial_epoch
    distribution = monitor.timed.distribution = distribution_of(built)
    if distribution is not None:
        distribution.install()
    if adapt is not None:
        monitor.timed.loop = switching_loop(built, monitor.clock, adapt, report)
    kept_loop = None
    try:
        try:
            monitor.timed.install()
            monitor.begin_fit()
            replaced: dict[str, Any] = workload.replaced(built)
            if distribution is not None:
                replaced = {split: distribution.data(split) for split in built.plans}
            history = call.make(
                monitor.around(built.training.callbacks),
                replaced,
                class_weight=distribution is None,
            )
        finally:
            ended = perf_counter_ns()
            if monitor.timed.loop is not None:
                kept_loop = monitor.timed.loop.finish()
            monitor.timed.uninstall()
            if distribution is not None:
                distribution.uninstall()
        repeated_epochs = lengthen(
            history, call, stopped=monitor.cut_short,
            validate=lambda: call.validate_again(workload.replaced(built)),
        )  # fmt: skip
        seen = FitOfScript(
            number=call.number,
            outcome=attrs.evolve(
                outcome_of(
                    monitor, built, started, ended, initial_epoch=call.initial_epoch,
                    jit_compile=None if kept_loop is None else kept_loop.jit_compile,
                ),
                name=f"fit {call.number} of {type(model).__name__}",
                repeated_epochs=repeated_epochs,
            ),
            effects=built.stack.report_effects(built.run, model),
            diverged=monitor.diverged,
        )  # fmt: skip
    finally:
        # whatever the call has raised, the script may go on
        workload.compiled.put_back(model)
    return seen, history


def effects_of(fits: Sequence[FitOfScript]) -> dict[str, Effect]:
    """Every plugin's effect on these fits together: it took effect if it did on one of them; where
    it did not on all, it is said on which, and why."""
    found: dict[str, Effect] = {}
    for name in dict.fromkeys(name for fit in fits for name in fit.effects):
        told = [(fit.number, fit.effects[name]) for fit in fits if name in fit.effects]
        applied = [effect for _, effect in told if effect.applied]
        idle = [(number, effect) for number, effect in told if not effect.applied]
        if not applied or not idle:
            found[name] = told[-1][1]
            continue
        number, effect = idle[0]
        found[name] = Effect.applied_as(
            f"in {len(applied)} of {len(told)} fits: {applied[-1].detail}; not in fit {number}: "
            f"{effect.detail}"
        )
    return found
