"""Train with values of settings and options: a trial of a search, and a pair of its proof."""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.recipe.model import TuneObjective
from tfopt_core.records.messages import EpochDone, ProcessStarted, Progress
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL, ScheduledRun, Variant
from tfopt_core.training.holdout import with_holdout
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.tuning.deadline import RUN_SECONDS, ProcessDeadline
from tfopt_core.tuning.results import SettingsOutcome, SettingsTrial, TrialOutcome, Values
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.trial_figures import (
    NoFigure,
    cause_of,
    check_math,
    decision_of,
    log_ratio,
    misses_target,
)
from tfopt_core.tuning.tunables import Tunable, with_options, with_values
from tfopt_core.workers.spawn import Runner

MISSED = "it never reached the target"
# Takes the metric of an epoch, higher is better, and the epoch; returns whether to end there.
OnEpoch = Callable[[float, int], bool]


@attrs.frozen(kw_only=True)
class SearchGoal:
    """What a search of settings looks for.

    :param metric: what each epoch is judged by, and for quality each trial.
    :param sign: 1 where it is better high, -1 where it is better low.
    """

    objective: TuneObjective
    metric: str
    sign: float

    @property
    def trains_whole(self) -> bool:
        """Whether trainings run to their end, and quality steers the search."""
        return self.objective in ("time-to-target", "quality")


@attrs.frozen
class TrialTraining:
    """A training that ended well: its run, and of each epoch when it ended and its metric.

    The seconds count from the process' set-up of TensorFlow.
    """

    run: RunResult
    epochs: tuple[tuple[float, float], ...]

    def within(self, seconds: float) -> float:
        """Return the metric after so many seconds: of the last epoch if it ended by then, else
        interpolated between two epochs, so that a little noise of the time moves it little.

        :raises NoFigure: if no epoch ended by then.
        """
        place = bisect.bisect_right([end for end, _ in self.epochs], seconds)
        if not place:
            raise NoFigure(TrialOutcome.FAILED, f"no epoch ended within {seconds:.3g} s")
        before, metric = self.epochs[place - 1]
        if place < len(self.epochs):
            after, later = self.epochs[place]
            metric += (later - metric) * (seconds - before) / (after - before)
        if not math.isfinite(metric):
            raise NoFigure(TrialOutcome.FAILED, f"its metric is {metric}")
        return metric

    def worst(self, sign: float) -> float:
        """Return the worst metric of its epochs; `sign` as `SearchGoal` has it."""
        return min((metric for _, metric in self.epochs), key=lambda one: sign * one)

    @property
    def seconds(self) -> float:
        """The seconds to the end of its last epoch."""
        return self.epochs[-1][0]


@attrs.define(kw_only=True, eq=False)
class SettingsRunner:
    """Makes the trainings of a search of settings, each in a worker process.

    :param request: the request of the search, without plugins.
    :param stack: the stack whose settings are searched, as it stands untuned.
    :param aside: whether quality is read on a part that is set aside from the training data.
    :param deadline: the limit of a process, which the runner's limits call.
    :param limited: whether a training may take no longer than that.
    """

    request: Request
    runner: Runner
    goal: SearchGoal
    deadline: ProcessDeadline
    stack: Stack
    space: Sequence[Tunable]
    aside: bool
    limited: bool = True
    now: Callable[[], float] = time.monotonic
    _number: int = 0

    def prepared(self, values: Values, stack: Stack | None = None) -> Request:
        """Return the request of the trainings with these values, its plugins resolved.

        :param stack: another stack than that which is searched.
        :raises TfoptError: for what a plugin refuses, or the workload.
        :raises NoFigure: if a plugin cannot take effect, or changes what may not change.
        """
        self._number += 1
        recipe = with_options(self.request.recipe, values, self.space)
        plugins = stacked(with_values(self.stack if stack is None else stack, values, self.space))
        request = attrs.evolve(
            self.request, recipe=with_holdout(recipe) if self.aside else recipe, plugins=plugins,
            folder=self.request.folder / f"settings-{self._number:03d}",
        )  # fmt: skip
        if not plugins:
            return request
        self._begin()
        prepared, request = prepare(request, self.runner)
        for name in self._searched_plugins & set(prepared.not_applied):
            why_not = prepared.not_applied[name]
            raise NoFigure(TrialOutcome.NOT_APPLIED, f"{name}: {why_not}")
        check_math(prepared, self.goal.objective)
        return request

    def train(
        self, request: Request, seed: int, *, place: int = 0, allowed: float | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> TrialTraining:  # fmt: skip
        """Train once.

        :param place: tells the runs of one request apart.
        :param allowed: end the training with the first epoch that ends later, in seconds.
        :param on_epoch: asked after each epoch whether to end there.
        :raises NoFigure: if it failed or was ended.
        """
        epochs: list[tuple[float, float]] = []
        begun, late, pruned = self.now(), False, False

        def tell(message: Progress) -> None:
            nonlocal begun, late, pruned
            if late or pruned:
                return  # the process is being ended
            if isinstance(message, ProcessStarted):
                begun = self.now()
            if not isinstance(message, EpochDone) or self.goal.metric not in message.metrics:
                return
            metric = message.metrics[self.goal.metric]
            epochs.append((self.now() - begun, metric))
            late = allowed is not None and epochs[-1][0] > allowed
            if late:
                self.deadline.end("the time of the untuned training was over")
            elif on_epoch is not None and math.isfinite(metric):
                pruned = on_epoch(self.goal.sign * metric, message.epoch)
                if pruned:
                    count = "1 epoch" if len(epochs) == 1 else f"{len(epochs)} epochs"
                    self.deadline.end(f"it learned worse than others after {count}")

        self._begin()
        variant = Variant(FULL if request.plugins else BASELINE, request.plugins)
        run = Processes(request, self.runner).run(
            ScheduledRun(place, 0, variant, seed), f"{request.folder.name}-{place}", tell,
            warm_seconds=None if self.goal.trains_whole else RUN_SECONDS,
        )  # fmt: skip
        trained = TrialTraining(run, tuple(epochs))
        if late and not run.ok:
            return trained
        if pruned and not run.ok:
            raise _Pruned(trained)
        if not run.ok:
            outcome = TrialOutcome.OUT_OF_MEMORY if run.out_of_memory else TrialOutcome.FAILED
            raise NoFigure(outcome, cause_of(run))
        for name, effect in run.effects.items():
            if not effect.applied and name in self._searched_plugins:
                raise NoFigure(TrialOutcome.NOT_APPLIED, f"{name}: {effect.detail}")
        if not epochs and self.goal.objective == "quality":
            why = f'the training reports no "{self.goal.metric}"'
            raise NoFigure(TrialOutcome.FAILED, why)
        return trained

    def untuned(self, seed: int) -> SettingsTrial:
        """Return the trial without any value, which tells the time that all others have.

        :raises TfoptError: if the untuned training fails: there is nothing to compare with.
        """
        begun = self.now()
        try:
            trained = self.train(self.prepared({}), seed)
            quality = trained.within(math.inf)
        except NoFigure as error:
            raise TfoptError(f"the training without any changed value fails: {error}") from None
        return SettingsTrial(
            values={}, outcome=SettingsOutcome.MEASURED, figure=self.goal.sign * quality,
            quality=quality,
            epochs=tuple(metric for _, metric in trained.epochs),
            allowed_seconds=trained.seconds, run_seconds=trained.run.process_seconds,
            seconds=self.now() - begun,
        )  # fmt: skip

    def attempt(
        self, values: Values, seed: int, *, untuned: Request | None, allowed: float | None,
        on_epoch: OnEpoch | None,
    ) -> SettingsTrial:  # fmt: skip
        """Make a trial. A failure is a result too; Ctrl-C raises KeyboardInterrupt.

        :param untuned: the request of the untuned training, which a pair compares with; None for
            quality.
        :param allowed: the seconds of the untuned training, for quality.
        """
        begun = self.now()
        trial = SettingsTrial(values=dict(values), outcome=SettingsOutcome.FAILED)
        try:
            request = self.prepared(values)
            trained = self.train(request, seed, allowed=allowed, on_epoch=on_epoch)
            trial = attrs.evolve(trial, epochs=_metrics(trained))
            figure = self._figure(trained, untuned, seed, allowed)
            trial = attrs.evolve(
                trial, outcome=SettingsOutcome.MEASURED, figure=figure,
                quality=None if allowed is None else self.goal.sign * figure,
                run_seconds=trained.run.process_seconds,
            )  # fmt: skip
        except _Pruned as error:
            trial = attrs.evolve(
                trial, outcome=SettingsOutcome.PRUNED, reason=str(error),
                epochs=_metrics(error.trained),
            )  # fmt: skip
        except Missed as error:
            trial = attrs.evolve(trial, outcome=SettingsOutcome.MISSED, reason=str(error))
        except (NoFigure, TfoptError) as error:
            decision = decision_of(error)
            outcome = SettingsOutcome(str(decision.outcome))
            trial = attrs.evolve(trial, outcome=outcome, reason=decision.reason)
        return attrs.evolve(trial, seconds=self.now() - begun)

    def gain(self, with_: TrialTraining, without: TrialTraining, allowed: float | None) -> float:
        """Return ln(figure without / with), or the difference in quality with less without.

        :raises NoFigure: if a figure is missing.
        :raises Missed: if the training with the values never reached the target.
        """
        goal = self.goal
        if goal.objective == "time-to-target" and misses_target(with_.run):
            raise Missed(MISSED)
        if goal.objective != "quality":
            return log_ratio(goal.objective, without.run, with_.run)
        assert allowed is not None
        return goal.sign * (with_.within(allowed) - without.within(allowed))

    def _begin(self) -> None:
        if self.limited:
            self.deadline.begin()
        else:
            self.deadline.lift()

    @property
    def _searched_plugins(self) -> set[str]:
        return {one.plugin for one in self.space if one.plugin}

    def _figure(
        self, trained: TrialTraining, untuned: Request | None, seed: int, allowed: float | None
    ) -> float:
        """Return the figure of a trial, by a run of the untuned training for a ratio."""
        if allowed is not None:
            try:
                return self.goal.sign * trained.within(allowed)
            except NoFigure as error:
                raise Missed(error.reason) from None
        if self.goal.objective == "time-to-target" and misses_target(trained.run):
            raise Missed(MISSED)
        assert untuned is not None  # trials for a ratio have it
        try:
            without = self.train(untuned, seed, place=self._number)
        except NoFigure as error:
            reason = f"the untuned training beside it failed: {error.reason}"
            raise NoFigure(TrialOutcome.FAILED, reason) from None
        return math.exp(self.gain(trained, without, None))


class _Pruned(NoFigure):
    """A training that was ended since others were better after as many epochs."""

    def __init__(self, trained: TrialTraining) -> None:
        super().__init__(TrialOutcome.FAILED, cause_of(trained.run))
        self.trained = trained


class Missed(Exception):
    """A training that ended well and has no figure; the message says why."""


def _metrics(trained: TrialTraining) -> tuple[float, ...]:
    return tuple(metric for _, metric in trained.epochs if math.isfinite(metric))
