"""Trainings whose quality and time follow from their options, made by no process."""

import contextlib
import math
from pathlib import Path

import attrs

from support.in_process import ended_with
from support.measure_runs import make_outcome
from support.report_results import make_plan, make_prepared
from support.simulated_search import make_tune
from support.tuned import make_tuned
from tfopt_core.recipe.model import MeasureSpec, Recipe, TargetSpec, TuneSpec, WorkloadSpec
from tfopt_core.training.messages import EpochDone, RunReport
from tfopt_core.trials.holdout import PLACE
from tfopt_core.trials.request import Prepared
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.search_log import SearchLog
from tfopt_core.tuning.settings import ValueSearch
from tfopt_core.tuning.storage import StudyStorage
from tfopt_core.tuning.study import Study
from tfopt_core.tuning.trials import TrialMaker
from tfopt_core.workers.fork import ForkRunner
from tfopt_core.workers.spawn import ProcessOutcome
from tfopt_core.workers.task import Failure, PrepareTask, ProcessStarted

RATES = {"low": 1e-4, "high": 1.0, "log": True}
EPOCHS = 6


def prepared(task, equivalence: str) -> Prepared:
    """The dry build of a task, whose plugins have chosen nothing."""
    plans = (
        make_plan(one.name, settings=one.settings, asked=one.settings, equivalence=equivalence)
        for one in task.job.plugins
    )
    return make_prepared(plugins=tuple(plans))


@attrs.define(eq=False, kw_only=True)
class SimulatedTrainings(ForkRunner):
    """Trains in no time: best at a learning rate of 0.01, slower with more units.

    A training with 7 units fails, one with 9 runs out of memory.

    :param equivalence: what its plugins do to the training; their setting "steps" makes it slower.
    :param interrupt_at: the number of the run in which Ctrl-C is pressed; None for never.
    """

    interrupt_at: int | None = None
    equivalence: str = "rounding"
    now: float = 0.0
    runs: list[tuple[dict, bool, int]] = attrs.field(factory=list)

    def warm_up(self, task, environment) -> None:
        """Start nothing."""

    def __call__(self, task, environment, tell) -> ProcessOutcome:
        """Answer as a worker process does."""
        if isinstance(task, PrepareTask):
            return ended_with(prepared(task, self.equivalence))
        spec = task.job.recipe.workload
        aside = spec.factory == PLACE
        options = dict(spec.options["workload"].get("options", {}) if aside else spec.options)
        self.runs.append((options, aside, task.job.seed))
        if self.interrupt_at is not None and len(self.runs) > self.interrupt_at:
            raise KeyboardInterrupt
        units = options.get("units", 32)
        if units in (7, 9):
            return ended_with(Failure(
                error="E", message="raised ValueError: 7 units", exit_code=3,
                out_of_memory=units == 9,
            ))  # fmt: skip
        tell(ProcessStarted())
        return self._trained(task, options, units, tell)

    def _trained(self, task, options: dict, units: int, tell) -> ProcessOutcome:
        begun, values, ends = self.now, [], []
        off = abs(math.log10(options.get("learning_rate", 0.001)) + 2)
        for epoch in range(EPOCHS):
            # runs differ a little
            steps = sum(one.settings.get("steps", 0) for one in task.job.plugins)
            self.now += 1 + units / 64 + len(self.runs) % 5 / 500
            self.now += steps / 4
            values.append((0.95 - 0.15 * off) * (1 - 0.5 ** (epoch + 1)))
            ends.append(self.now - begun)
            tell(EpochDone(epoch, {"val_accuracy": values[-1]}))
            called_off = self.spawn.limits.called_off
            if called_off is not None and (cause := called_off()) is not None:
                return ended_with(cause=cause, seconds=ends[-1])
        fit = make_outcome(
            wall_seconds=ends[-1], epochs=EPOCHS, planned_epochs=EPOCHS,
            epoch_end_seconds=tuple(ends),
            history={"val_accuracy": tuple(values)},
        )  # fmt: skip
        return ended_with(RunReport(wall_seconds=ends[-1], fits=(fit,)), ends[-1])


def make_context(
    trainings: SimulatedTrainings, folder: Path, options: dict, objective="time-to-target", **given
) -> SearchContext:
    """A search over these ranges of the workload's options, with a log of its own."""
    recipe = Recipe(
        name="r", workload=WorkloadSpec(
            factory="train.py:build", epochs=EPOCHS, options={"learning_rate": 0.001, "units": 32}
        ),
        measure=MeasureSpec(target=TargetSpec(metric="val_accuracy", at_least=0.74)),
        tune=TuneSpec(objective=objective, options=options, trials=10), path=folder / "recipe.toml",
    )  # fmt: skip
    return make_tune(
        folder, recipe=recipe, objective=objective,
        **{"budget": 1e6, "runner": trainings, "trial_runner": trainings,
           "now": lambda: trainings.now, **given},
    )  # fmt: skip


def make_value_search(
    trainings: SimulatedTrainings, folder: Path, options: dict, *, objective="time-to-target",
    log: SearchLog | None = None, stack=(), observer=lambda event: None, **given,
) -> ValueSearch:  # fmt: skip
    """A search of these ranges."""
    tune = make_context(trainings, folder, options, objective, **given)
    tune.log = log or SearchLog.open(folder / "search", "here", {"CPU": "one"})
    tune.observer = observer
    result = make_tuned(objective=objective, proof=None, stack=stack, trials=[])
    return ValueSearch(maker=TrialMaker(tune=tune), result=result)


def in_memory() -> StudyStorage:
    """A storage of this process alone."""
    from optuna.storages import InMemoryStorage

    return StudyStorage("memory", InMemoryStorage())


def searched(
    trainings: SimulatedTrainings, folder: Path, options: dict, *, planned=12, pruner="none",
    sampler="tpe", storage: StudyStorage | None = None, study: dict | None = None, **given,
) -> tuple[ValueSearch, Study]:  # fmt: skip
    """A search that is over, and its study; its trials are kept in a storage, or in memory."""
    search = make_value_search(trainings, folder, options, **given)
    made = Study(
        search.space, sampler=sampler, pruner=pruner, seed=3, planned=planned,
        search=search.maker.tune.log.own.id, storage=storage or in_memory(), **(study or {}),
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt):
        search.try_values(made)
    return search, made
