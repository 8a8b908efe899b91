"""Search values of settings and options: trials by Optuna, then what each value earned."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.trials.request import Request
from tfopt_core.tuning.contrast import LEAST_RATIO
from tfopt_core.tuning.progress import SearchObserver, SearchPhase, SettingsTrialEnded
from tfopt_core.tuning.results import (
    EarnedValue,
    SettingsOutcome,
    SettingsTrial,
    Values,
)
from tfopt_core.tuning.search import GOES_ON
from tfopt_core.tuning.search_log import SearchLog, place_of
from tfopt_core.tuning.settings_runs import Missed, SettingsRunner
from tfopt_core.tuning.study import ProposedTrial, Study, values_key
from tfopt_core.tuning.trial_figures import NoFigure, decision_of
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
    :param elapsed: returns the seconds that the whole search has taken.
    """

    runner: SettingsRunner
    study: Study
    log: SearchLog
    elapsed: Callable[[], float]
    budget: float
    seed: int
    observer: SearchObserver = lambda event: None
    trials: list[SettingsTrial] = attrs.field(factory=list)
    earned: list[EarnedValue] = attrs.field(factory=list)
    best: dict[str, Any] = attrs.field(factory=dict)
    allowed: float | None = None
    interrupted: bool = False
    why_ended: str = ""
    _place: str = ""

    def go(self) -> None:
        """Search until all trials are made, the budget's part is used up, or Ctrl-C.

        :raises TfoptError: if the untuned training fails.
        """
        runner = self.runner
        # trials of another metric, direction or untuned value compare with none of these
        untuned = [one.untuned for one in runner.space]
        self._place = place_of(runner.stack, runner.goal.metric, runner.goal.sign, untuned)
        try:
            self._try()
            self._test_each_value()
        except KeyboardInterrupt:
            self.interrupted = True
            self.why_ended = "interrupted; --resume goes on with the search"
            self.best = self.best or self._best_values()

    # Trials

    def _try(self) -> None:
        values = {one.key: one.untuned for one in self.runner.space}
        if self.runner.goal.objective == "quality":
            self.study.add_untuned(self._train_untuned(), values)
        else:
            self.study.begin_with(values)
        self._take_news()
        untuned: Request | None = None
        while self.study.has_room():
            self.why_ended = self._why_stop(TRIALS_SHARE)
            if self.why_ended:
                break
            if self.allowed is None and untuned is None:
                untuned = self._untuned_request()
            trial = self.study.make(partial(self._made, untuned))
            if trial is None:
                self.why_ended = NOTHING_NEW
                break
            self._show(trial, self.study.count())
            self._take_news()
        self.best = self._best_values()

    def _take_news(self) -> None:
        """Take the trials that others have ended, which may be those of an earlier search."""
        for trial in self.study.news():
            if trial.kept_from:
                self.log.begun_from[trial.kept_from] = None
            self.trials.append(trial)

    def _show(self, trial: SettingsTrial, number: int) -> None:
        left = max(0.0, TRIALS_SHARE * self.budget - self.elapsed())
        self.observer(
            SettingsTrialEnded(
                trial=trial, number=number, planned=self.study.planned, seconds_left=left,
            )
        )  # fmt: skip

    def _train_untuned(self) -> SettingsTrial:
        """Train without any value, for the time and the quality of all trials."""
        kept = self.log.found("untuned", self._place, SettingsTrial)
        if kept is not None:
            trial = attrs.evolve(kept[0], kept_from=kept[1])
        else:
            self.observer(SearchPhase("training without any changed value", minor=True))
            trial = self.runner.untuned(self._seed("untuned"))
            with HoldInterrupt():
                self.log.write("untuned", self._place, trial, trial.seconds)
        self.trials.append(trial)
        self.allowed = trial.allowed_seconds
        return trial

    def _untuned_request(self) -> Request:
        try:
            return self.runner.prepared({})
        except NoFigure as error:
            raise TfoptError(f"the training without any changed value fails: {error}") from None

    def _made(self, untuned: Request | None, asked: ProposedTrial) -> SettingsTrial:
        whole = self.runner.goal.trains_whole
        trial = self.runner.attempt(
            asked.values, self._seed(values_key(asked.values)), untuned=untuned,
            allowed=self.allowed, on_epoch=asked.report if whole else None,
        )  # fmt: skip
        self.log.write("settings", seconds=trial.seconds)
        self.trials.append(trial)
        return trial

    def _best_values(self) -> dict[str, Any]:
        """Return the changed values of the best trial, empty if none beats the untuned training."""
        measured = [
            (one.figure, one.values) for one in self.trials
            if one.values and one.outcome is SettingsOutcome.MEASURED and one.figure is not None
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
        untuned = {one.key: one.untuned for one in self.runner.space}
        for key in list(self.best):
            if len(self.best) < 2:
                # of one value alone the fresh pairs decide
                return
            space = self.runner.space
            kept = {name: value for name, value in self.best.items() if name != key}
            rest = changed({**untuned, **kept}, space)
            name = place_of(self.runner.stack, self._place, sorted(self.best.items()), key)
            # of this search alone: a comparison that failed may be made by another one
            found = self.log.found("earned", name, EarnedValue, lasting=lambda one: False)
            if found is not None:
                earned = found[0]
            else:
                why = self._why_stop(EARNED_SHARE)
                if why:
                    self.why_ended = self.why_ended or why
                    return
                self.observer(SearchPhase(f"what {key} earned", minor=True))
                earned = self._contrast(key, untuned[key], rest)
            with HoldInterrupt():
                if found is None:
                    self.log.write("earned", name, earned, earned.seconds)
                self.earned.append(earned)
                if not earned.stays:
                    self.best = rest

    def _contrast(self, key: str, untuned: Any, rest: Values) -> EarnedValue:
        begun, runner = self.elapsed(), self.runner
        given = {"key": key, "value": self.best[key], "untuned": untuned}
        gains: list[float] = []
        try:
            with_, without = runner.prepared(self.best), runner.prepared(rest)
            for pair in range(EARNED_PAIRS):
                seed = self._seed(f"{key} {pair}")
                order = ("with", "without") if pair % 2 else ("without", "with")  # ABBA
                requests = {"with": with_, "without": without}
                runs = {
                    side: runner.train(requests[side], seed, place=pair, allowed=self.allowed)
                    for side in order
                }
                gains.append(runner.gain(runs["with"], runs["without"], self.allowed))
        except Missed as error:
            return EarnedValue(
                **given, stays=False, reason=f"{error} with it", seconds=self.elapsed() - begun
            )
        except (NoFigure, TfoptError) as error:
            return EarnedValue(
                **given, stays=True, reason=f"could not be compared: {decision_of(error).reason}",
                seconds=self.elapsed() - begun,
            )  # fmt: skip
        mean = math.fsum(gains) / len(gains)
        to_quality = runner.goal.objective == "quality"
        words = f"{mean:+.3g} {runner.goal.metric}" if to_quality else f"{math.exp(mean):.2f}x"
        why = f"{words} with it" if mean > 0 else f"{words} with it, which does not earn its place"
        return EarnedValue(
            **given, stays=mean > 0, reason=why, figure=mean if to_quality else math.exp(mean),
            pairs=len(gains), seconds=self.elapsed() - begun,
        )  # fmt: skip

    def _why_stop(self, share: float) -> str:
        if self.elapsed() < share * self.budget:
            return ""
        return f"the search's part of the budget was used up; {GOES_ON}"

    def _seed(self, of: str) -> int:
        return random.Random(f"{self.seed} {of}").randrange(1, 2**31)
