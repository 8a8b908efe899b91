"""One fit of a script, trained with the stack while a `Watch` looks on."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.errors import TrainingDiverged
from tfopt_core.hooks import Effect
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit import FitOutcome, outcome_of
from tfopt_core.training.loops import Adapt
from tfopt_core.training.script.fit_workload import FitWorkload
from tfopt_core.training.switching import switching_loop
from tfopt_core.training.watch import Known, Report, Watch


@attrs.frozen(kw_only=True)
class FitOfScript:
    """What came of one call of `fit`.

    :param name: the model's class and the number of the call: `fit 2 of Sequential`.
    :param effects: every plugin's effect on it, by name.
    :param diverged: what metric was no finite number, and when; None if none was.
    """

    name: str
    outcome: FitOutcome
    effects: dict[str, Effect]
    diverged: TrainingDiverged | None = None


def train_fit(
    workload: FitWorkload,
    built: Built,
    started: int,
    report: Report,
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
    watch = Watch(built, report, known=known, kept=workload.compiled.kept, tolerant=True)
    watch.epochs_done = call.initial_epoch
    distribution = watch.distribution = distribution_of(built)
    if distribution is not None:
        distribution.install()
    if adapt is not None:
        watch.loop = switching_loop(built, watch.clock, adapt, report)
    kept_loop = None
    try:
        watch.install()
        watch.begin_fit()
        replaced: dict[str, Any] = workload.replaced(built)
        if distribution is not None:
            replaced = {split: distribution.data(split) for split in built.plans}
        history = call.make(
            [*built.training.callbacks, watch.callback()],
            replaced,
            class_weight=distribution is None,
        )
    finally:
        ended = perf_counter_ns()
        if watch.loop is not None:
            kept_loop = watch.loop.finish()
        watch.uninstall(keep=watch.loop is None)
        if distribution is not None:
            distribution.uninstall()
    outcome = outcome_of(
        watch,
        built,
        started,
        ended,
        initial_epoch=call.initial_epoch,
        jit_compile=None if kept_loop is None else kept_loop.jit_compile,
    )
    effects = built.stack.report_effects(built.run, model)
    workload.compiled.put_back(model)
    seen = FitOfScript(
        name=f"fit {call.number} of {type(model).__name__}",
        outcome=outcome,
        effects=effects,
        diverged=watch.diverged,
    )
    return seen, history
