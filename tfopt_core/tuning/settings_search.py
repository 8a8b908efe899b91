"""Search values of settings and options: trials by Optuna, then what each value earned."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.trials.request import Request
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.contrast import LEAST_RATIO
from tfopt_core.tuning.progress import SearchPhase, SettingsTrialEnded
from tfopt_core.tuning.results import EarnedValue, SettingsTrial, TrialOutcome, Values
from tfopt_core.tuning.search import GOES_ON, INTERRUPTED
from tfopt_core.tuning.search_log import place_of
from tfopt_core.tuning.settings_runs import UNTUNED_FAILS, SettingsRunner
from tfopt_core.tuning.study import ProposedTrial, Study, values_key
from tfopt_core.tuning.trial_runs import NoFigure, no_figure_of
from tfopt_core.tuning.tunables import changed
from tfopt_core.workers.interrupts import HoldInterrupt

# The parts of the whole budget after which no trial of settings begins, and no pair that asks what
# a value earned; the rest is for the fresh pairs.
TRIALS_SHARE, EARNED_SHARE = 0.6, 0.7
# Pairs of the best values with and without one of them.
EARNED_PAIRS = 2
NOTHING_NEW = "the sampler proposes no values that were not tried"


@attrs.define(kw_only=True, eq=False)
class ValueSearch:
    """The search of settings of one command. After `go`, `best` are the values that it found.

    :param study: proposes values and prunes.
    """

    tune: SearchContext
    runner: SettingsRunner
    study: Study
    trials: list[SettingsTrial] = attrs.field(factory=list)
    earned: list[EarnedValue] = attrs.field(factory=list)
    best: dict[str, Any] = attrs.field(factory=dict)
    allowed: float | None = None
    interrupted: bool = False
    why_ended: str = ""
    _untuned: dict[str, Any] = attrs.field(init=False)
    _place: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        runner = self.runner
        self._untuned = {one.key: one.untuned for one in runner.space}
        # trials of another metric, direction or untuned value compare with none of these
        values = list(self._untuned.values())
        self._place = place_of(runner.stack, runner.metric, runner.sign, values)

    def go(self) -> None:
        """Search until all trials are made, the budget's part is used up, or Ctrl-C.

        :raises TfoptError: if the untuned training fails.
        """
        try:
            self._try()
            self._test_each_value()
        except KeyboardInterrupt:
            self.interrupted, self.why_ended = True, INTERRUPTED
            self.best = self.best or self._best_values()

    # Trials

    def _try(self) -> None:
        tune = self.tune
        trained = self._train_untuned() if tune.objective == "quality" else None
        self.study.begin_with(self._untuned, trained)
        self._take_news()
        untuned: Request | None = None
        while self.study.has_room():
            self.why_ended = self._why_stop(TRIALS_SHARE)
            if self.why_ended:
                break
            if self.allowed is None and untuned is None:
                try:
                    untuned = self.runner.prepared({})
                except NoFigure as error:
                    raise TfoptError(UNTUNED_FAILS.format(error=error)) from None
            trial = self.study.make(partial(self._made, untuned))
            if trial is None:
                self.why_ended = NOTHING_NEW
                break
            tune.observer(
                SettingsTrialEnded(
                    trial=trial, number=self.study.count(), planned=self.study.planned,
                    seconds_left=max(0.0, TRIALS_SHARE * tune.budget - tune.elapsed()),
                )
            )  # fmt: skip
            self._take_news()
        self.best = self._best_values()

    def _take_news(self) -> None:
        """Take the trials that others have ended, which may be those of an earlier search."""
        for trial in self.study.news():
            if trial.kept_from:
                self.tune.log.begun_from[trial.kept_from] = None
            self.trials.append(trial)

    def _train_untuned(self) -> SettingsTrial:
        """Train without any value, for the time and the quality of all trials."""
        kept = self.tune.log.found("untuned", self._place, SettingsTrial)
        if kept is not None:
            trial = attrs.evolve(kept[0], kept_from=kept[1])
        else:
            self.tune.observer(SearchPhase("training without any changed value", minor=True))
            trial = self.runner.untuned(self._seed("untuned"))
            with HoldInterrupt():
                self.tune.log.write("untuned", self._place, trial, trial.seconds)
        self.trials.append(trial)
        self.allowed = trial.allowed_seconds
        return trial

    def _made(self, untuned: Request | None, asked: ProposedTrial) -> SettingsTrial:
        trial = self.runner.attempt(
            asked.values, self._seed(values_key(asked.values)), untuned=untuned,
            allowed=self.allowed, on_epoch=asked.report if self.tune.trains_whole else None,
        )  # fmt: skip
        self.tune.log.write("settings", seconds=trial.seconds)
        self.trials.append(trial)
        return trial

    def _best_values(self) -> dict[str, Any]:
        """Return the changed values of the best trial, empty if none beats the untuned training."""
        measured = [
            (one.figure, one.values) for one in self.trials
            if one.values and one.outcome is TrialOutcome.MEASURED and one.figure is not None
        ]  # fmt: skip
        if not measured:
            return {}
        figure, values = max(measured, key=lambda one: one[0])
        untuned = next((one.figure for one in self.trials if not one.values), LEAST_RATIO)
        if untuned is not None and figure <= untuned:
            return {}
        return changed(values, self.runner.space)

    # What each earned

    def _test_each_value(self) -> None:
        """Compare the best values with and without each one; put back those that do not help."""
        log = self.tune.log
        for key in list(self.best):
            if len(self.best) < 2:
                # of one value alone the fresh pairs decide
                return
            rest = {name: value for name, value in self.best.items() if name != key}
            place = place_of(self.runner.stack, self._place, sorted(self.best.items()), key)
            # of this search alone: a comparison that failed may be made by another one
            found = log.found("earned", place, EarnedValue, lasting=lambda one: False)
            if found is None:
                why = self._why_stop(EARNED_SHARE)
                if why:
                    self.why_ended = self.why_ended or why
                    return
                self.tune.observer(SearchPhase(f"what {key} earned", minor=True))
            earned = self._contrast(key, rest) if found is None else found[0]
            with HoldInterrupt():
                if found is None:
                    log.write("earned", place, earned, earned.seconds)
                self.earned.append(earned)
                if not earned.stays:
                    self.best = rest

    def _contrast(self, key: str, rest: Values) -> EarnedValue:
        """Return what a value earned, by pairs with it and with the `rest` alone."""
        begun, runner, gains = self.tune.elapsed(), self.runner, list[float]()
        figure = None
        try:
            sides = {"with": runner.prepared(self.best), "without": runner.prepared(rest)}
            for pair in range(EARNED_PAIRS):
                seed = self._seed(f"{key} {pair}")
                order = ("with", "without") if pair % 2 else ("without", "with")  # ABBA
                runs = {
                    side: runner.train(sides[side], seed, place=pair, allowed=self.allowed)
                    for side in order
                }
                gains.append(runner.gain(runs["with"], runs["without"], self.allowed))
        except (NoFigure, TfoptError) as error:
            ended, gains = no_figure_of(error), []
            stays = ended.outcome is not TrialOutcome.MISSED
            why = f"could not be compared: {ended}" if stays else f"{ended} with it"
        else:
            mean = math.fsum(gains) / len(gains)
            stays, by_quality = mean > 0, self.tune.objective == "quality"
            figure = mean if by_quality else math.exp(mean)
            why = f"{figure:+.3g} {runner.metric}" if by_quality else f"{figure:.2f}x"
            why += " with it"
            why += "" if stays else ", which does not earn its place"
        return EarnedValue(
            key=key, value=self.best[key], untuned=self._untuned[key], stays=stays, reason=why,
            figure=figure, pairs=len(gains), seconds=self.tune.elapsed() - begun,
        )  # fmt: skip

    def _why_stop(self, share: float) -> str:
        if self.tune.elapsed() < share * self.tune.budget:
            return ""
        return f"the search's part of the budget was used up; {GOES_ON}"

    def _seed(self, of: str) -> int:
        return random.Random(f"{self.tune.seed} {of}").randrange(1, 2**31)
