"""Train with values of settings and options: a trial of a search, and a pair of its proof."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.records.messages import EpochDone, ProcessStarted, Progress
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL, ScheduledRun, Variant
from tfopt_core.training.holdout import with_holdout
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import Request
from tfopt_core.tuning.context import RUN_SECONDS, SearchContext
from tfopt_core.tuning.results import SettingsTrial, TrialOutcome, Values
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.trial_runs import (
    NoFigure,
    cause_of,
    check_math,
    log_ratio,
    misses_target,
    no_figure_of,
)
from tfopt_core.tuning.tunables import Tunable, with_options, with_values

UNTUNED_FAILS = "the training without any changed value fails: {error}"
# Takes the metric of an epoch, higher is better, and the epoch; returns whether to end there.
OnEpoch = Callable[[float, int], bool]


@attrs.frozen
class TrialTraining:
    """A training that was not lost: its run, and of each epoch when it ended and its metric.

    The seconds count from the process' set-up of TensorFlow. It was `pruned` where it was ended
    since others were better after as many epochs.
    """

    run: RunResult
    epochs: tuple[tuple[float, float], ...]
    pruned: bool = False

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
        """Return the worst metric of its epochs; `sign` as `SettingsRunner` has it."""
        return min((metric for _, metric in self.epochs), key=lambda one: sign * one)

    @property
    def seconds(self) -> float:
        """The seconds to the end of its last epoch."""
        return self.epochs[-1][0]

    @property
    def metrics(self) -> tuple[float, ...]:
        """The metric of each epoch, where that is a number."""
        return tuple(metric for _, metric in self.epochs if math.isfinite(metric))


@attrs.define(kw_only=True, eq=False)
class SettingsRunner:
    """Makes the trainings of a search of settings, each in a worker process.

    :param stack: the stack whose settings are searched, as it stands untuned.
    :param metric: what each epoch is judged by, and for quality each trial.
    :param sign: 1 where it is better high, -1 where it is better low.
    :param proves: whether it makes fresh pairs: they take as long as they take, and quality is read
        on the validation data. A search reads it on a part that is set aside from the training
        data.
    """

    tune: SearchContext
    stack: Stack
    space: Sequence[Tunable]
    metric: str = ""
    sign: float = 1.0
    proves: bool = False
    _number: int = 0

    def prepared(self, values: Values) -> Request:
        """Return the request of the trainings with these values, its plugins resolved.

        :raises TfoptError: for what a plugin refuses, or the workload.
        :raises NoFigure: if a plugin cannot take effect, or changes what may not change.
        """
        self._number += 1
        request = self.tune.request
        recipe = with_options(request.recipe, values, self.space)
        plugins = stacked(with_values(self.stack, values, self.space))
        if self.tune.trains_whole and not self.proves:
            recipe = with_holdout(recipe)
        folder = request.folder / "proof" if self.proves else request.folder
        request = attrs.evolve(
            request, recipe=recipe, plugins=plugins, folder=folder / f"settings-{self._number:03d}"
        )
        if not plugins:
            return request
        self._begin()
        prepared, request = prepare(request, self.tune.runner)
        for name in self._searched_plugins & set(prepared.not_applied):
            why_not = prepared.not_applied[name]
            raise NoFigure(TrialOutcome.NOT_APPLIED, f"{name}: {why_not}")
        check_math(prepared, self.tune.objective)
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
        tune = self.tune
        epochs: list[tuple[float, float]] = []
        begun, late, pruned = tune.now(), False, False

        def tell(message: Progress) -> None:
            nonlocal begun, late, pruned
            if late or pruned:
                return  # the process is being ended
            if isinstance(message, ProcessStarted):
                begun = tune.now()
            if not isinstance(message, EpochDone) or self.metric not in message.metrics:
                return
            metric = message.metrics[self.metric]
            epochs.append((tune.now() - begun, metric))
            late = allowed is not None and epochs[-1][0] > allowed
            if late:
                tune.deadline.end("the time of the untuned training was over")
            elif on_epoch is not None and math.isfinite(metric):
                pruned = on_epoch(self.sign * metric, message.epoch)
                if pruned:
                    count = "1 epoch" if len(epochs) == 1 else f"{len(epochs)} epochs"
                    tune.deadline.end(f"it learned worse than others after {count}")

        self._begin()
        variant = Variant(FULL if request.plugins else BASELINE, request.plugins)
        run = Processes(request, tune.runner).run(
            ScheduledRun(place, 0, variant, seed), f"{request.folder.name}-{place}", tell,
            warm_seconds=None if tune.trains_whole else RUN_SECONDS,
        )  # fmt: skip
        trained = TrialTraining(run, tuple(epochs), pruned and not run.ok)
        if trained.pruned or (late and not run.ok):
            return trained
        if not run.ok:
            outcome = TrialOutcome.OUT_OF_MEMORY if run.out_of_memory else TrialOutcome.FAILED
            raise NoFigure(outcome, cause_of(run))
        for name, effect in run.effects.items():
            if not effect.applied and name in self._searched_plugins:
                raise NoFigure(TrialOutcome.NOT_APPLIED, f"{name}: {effect.detail}")
        if not epochs and tune.objective == "quality":
            raise NoFigure(TrialOutcome.FAILED, f'the training reports no "{self.metric}"')
        return trained

    def untuned(self, seed: int) -> SettingsTrial:
        """Return the trial without any value, which tells the time that all others have.

        :raises TfoptError: if the untuned training fails: there is nothing to compare with.
        """
        trial = self.attempt({}, seed, untuned=None, allowed=math.inf, on_epoch=None)
        if trial.outcome is not TrialOutcome.MEASURED:
            raise TfoptError(UNTUNED_FAILS.format(error=trial.reason))
        return trial

    def attempt(
        self, values: Values, seed: int, *, untuned: Request | None, allowed: float | None,
        on_epoch: OnEpoch | None,
    ) -> SettingsTrial:  # fmt: skip
        """Make a trial. A failure is a result too; Ctrl-C raises KeyboardInterrupt.

        :param untuned: the request of the untuned training, which a pair compares with; None for
            quality.
        :param allowed: the seconds of the untuned training, for quality; infinite for itself.
        """
        begun = self.tune.now()
        trial = SettingsTrial(values=dict(values), outcome=TrialOutcome.FAILED)
        try:
            trained = self.train(self.prepared(values), seed, allowed=allowed, on_epoch=on_epoch)
            trial = attrs.evolve(trial, epochs=trained.metrics)
            if trained.pruned:
                raise NoFigure(TrialOutcome.PRUNED, cause_of(trained.run))
            figure = self._figure(trained, untuned, seed, allowed)
            trial = attrs.evolve(
                trial, outcome=TrialOutcome.MEASURED, figure=figure,
                quality=None if allowed is None else self.sign * figure,
                allowed_seconds=trained.seconds if allowed == math.inf else None,
                run_seconds=trained.run.process_seconds,
            )  # fmt: skip
        except (NoFigure, TfoptError) as error:
            if allowed == math.inf and isinstance(error, TfoptError):
                raise  # without the untuned training there is no search
            ended = no_figure_of(error)
            trial = attrs.evolve(trial, outcome=ended.outcome, reason=ended.reason)
        return attrs.evolve(trial, seconds=self.tune.now() - begun)

    def gain(self, with_: TrialTraining, without: TrialTraining, allowed: float | None) -> float:
        """Return ln(figure without / with), or the difference in quality with less without.

        :raises NoFigure: if a figure is missing; MISSED if the training with the values never
            reached the target.
        """
        objective = self.tune.objective
        if objective == "quality":
            assert allowed is not None
            return self.sign * (with_.within(allowed) - without.within(allowed))
        self._check_target(with_)
        return log_ratio(objective, without.run, with_.run)

    def _begin(self) -> None:
        if self.proves:
            self.tune.deadline.lift()
        else:
            self.tune.deadline.begin()

    @property
    def _searched_plugins(self) -> set[str]:
        return {one.plugin for one in self.space if one.plugin}

    def _check_target(self, trained: TrialTraining) -> None:
        if self.tune.objective == "time-to-target" and misses_target(trained.run):
            raise NoFigure(TrialOutcome.MISSED, "it never reached the target")

    def _figure(
        self, trained: TrialTraining, untuned: Request | None, seed: int, allowed: float | None
    ) -> float:
        """Return the figure of a trial, by a run of the untuned training for a ratio."""
        if allowed is not None:
            try:
                return self.sign * trained.within(allowed)
            except NoFigure as error:
                raise NoFigure(TrialOutcome.MISSED, error.reason) from None
        self._check_target(trained)
        assert untuned is not None  # trials for a ratio have it
        try:
            without = self.train(untuned, seed, place=self._number)
        except NoFigure as error:
            reason = f"the untuned training beside it failed: {error.reason}"
            raise NoFigure(TrialOutcome.FAILED, reason) from None
        return math.exp(self.gain(trained, without, None))
