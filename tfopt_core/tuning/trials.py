"""Make one trial: a dry build, groups of short runs of two sides, and what they decide.

These decisions steer the search, and nothing else: the largest of many noisy ratios is larger than
the truth, so no gain is printed from them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import attrs

from tfopt_core.errors import InputError, TfoptError, first_line
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.groups import Groups
from tfopt_core.measurement.plan import MeasurementState
from tfopt_core.measurement.progress import Observer
from tfopt_core.recipe.model import Objective
from tfopt_core.recipe.table import to_json
from tfopt_core.statistics.figures import compared_seconds, not_projected
from tfopt_core.statistics.intervals import speedup_interval, t_interval
from tfopt_core.statistics.results import ComparisonKind
from tfopt_core.statistics.runs import BASELINE, FULL, Pair, RunResult, pairs_of
from tfopt_core.trials.holdout import with_holdout
from tfopt_core.trials.processes import prepare
from tfopt_core.trials.request import Prepared, Request
from tfopt_core.tuning.candidates import stacked
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import StackTrial, TrialOutcome, TunedPlugin
from tfopt_core.workers.turns import can_take_turns

# A run of a trial is cut after this many seconds of timed steps, or of those in turns.
RUN_SECONDS, RUN_SECONDS_IN_TURNS = 6.0, 3.0
# A plugin that gains less in a few pairs is not worth the fresh pairs that would have to show it.
LEAST_RATIO = 1.03
# One that is in already stays for less, since only further pairs can show that it earns its place.
LEAST_EARNED = 1.01
# A plugin that is this much worse by at least two pairs, or by the first one, is not tried further.
# Processes differ by 2 to 3%, but by more where the starts of short epochs sometimes wait.
WORSE_RATIO, WORSE_AT_ONCE_RATIO = 1 / 1.15, 1 / 1.5
# Two pairs are enough for a gain of which each shows this much.
PLAIN_RATIO = 1.15
# Pairs that any other decision takes at least; from which on an interval decides; and at most, of
# what seems to gain and is not settled before.
LEAST_PAIRS, INTERVAL_PAIRS, MOST_PAIRS = 2, 4, 6
# Of the printed intervals, and of the decisions by them: 80%, since what goes in by mistake is
# taken out where it is not missed, and the fresh pairs have the last word.
LEVEL = 0.2


class NoFigure(Exception):
    """A trial without a figure: its outcome and the reason."""

    def __init__(self, outcome: TrialOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


def with_figures(trial: StackTrial, log_ratios: Sequence[float]) -> StackTrial:
    """Return the trial with the mean ratio of its pairs, and an interval if there are two."""
    if len(log_ratios) < 2:
        return attrs.evolve(trial, ratio=math.exp(log_ratios[0]), pairs=1)
    interval = t_interval(log_ratios, LEVEL)
    ratio, low, high = speedup_interval(interval)
    return attrs.evolve(
        trial, ratio=ratio, low=low, high=high, confidence=interval.confidence,
        pairs=len(log_ratios),
    )  # fmt: skip


def decided(trial: StackTrial, log_ratios: Sequence[float]) -> StackTrial | None:
    """Return the trial with its figures and whether its plugin goes in, or stays in, by the pairs
    so far; None if more pairs are needed.

    :param log_ratios: ln(figure without the plugin / with it) of each pair, at least one.
    """
    found, pairs, adds = with_figures(trial, log_ratios), len(log_ratios), trial.action == "add"
    ratio, least = found.ratio or 0.0, LEAST_RATIO if adds else LEAST_EARNED

    def ended(outcome: TrialOutcome, why: str = "") -> StackTrial:
        return attrs.evolve(found, outcome=outcome, reason=f"{ratio:.2f}x with it{why}")

    if adds and ratio <= (WORSE_AT_ONCE_RATIO if pairs < LEAST_PAIRS else WORSE_RATIO):
        return ended(TrialOutcome.WORSE)
    if pairs < LEAST_PAIRS:
        return None
    shows_gain = pairs >= INTERVAL_PAIRS and found.low is not None and found.low > 1
    if min(log_ratios) >= math.log(PLAIN_RATIO) or (shows_gain and ratio >= least):
        return ended(TrialOutcome.IN if adds else TrialOutcome.STAYS)
    if not adds:
        if ratio >= 1 and (pairs < INTERVAL_PAIRS or (pairs < MOST_PAIRS and ratio >= least)):
            return None
        return ended(TrialOutcome.DROPPED, ", which does not earn its place")
    if ratio < least:
        # two noisy pairs that show no loss may still allow a plain gain
        may_gain = pairs == LEAST_PAIRS and ratio >= 1 and (found.high or 0.0) >= PLAIN_RATIO
        # two more pairs, since the sides of a pair change places with the next one
        if pairs == LEAST_PAIRS + 1 or may_gain:
            return None
        small = f"{ratio:.3f}x with it, and less than {LEAST_RATIO:.2f}x is not pursued"
        return attrs.evolve(found, outcome=TrialOutcome.NO_GAIN, reason=small)
    return None if pairs < MOST_PAIRS else ended(TrialOutcome.NO_GAIN, ", within the noise")


@attrs.define(kw_only=True, eq=False)
class TrialMaker:
    """Makes the trials of one search: dry builds, and groups of runs of two sides.

    :param request: the request of the search, without plugins; what steers a search by time to
        target is read on a part of its training data, which no verdict uses.
    """

    tune: SearchContext
    request: Request = attrs.field(init=False)
    objective: Objective = attrs.field(init=False)
    _number: int = 0

    def __attrs_post_init__(self) -> None:
        self.request, self.objective = self.tune.request, self.tune.objective
        if self.objective == "time-to-target":
            self.request = attrs.evolve(self.request, recipe=with_holdout(self.request.recipe))

    def prepared(self, **changes: object) -> tuple[Prepared, Request]:
        """Make the dry build of the request with these changes, in a folder of its own. Return it,
        and the request with what its plugins chose.

        :raises TfoptError: for what a plugin refuses, or the workload.
        :raises NoFigure: if a plugin changes the training where nothing reads how it learns.
        """
        self._number += 1
        folder = self.request.folder / f"trial-{self._number:03d}"
        request = attrs.evolve(self.request, folder=folder, **changes)  # type: ignore[arg-type]
        prepared, request = prepare(request, self.tune.trial_runner)
        for one in prepared.plugins:
            if one.equivalence == "changes" and self.objective != "time-to-target":
                why = f'{one.name} changes the training, which "{self.objective}" may not'
                raise NoFigure(TrialOutcome.REFUSED, why)
        return prepared, request

    def compare(
        self, prepared: Prepared, request: Request, without: tuple[StackedPlugin, ...],
        enough: Callable[[Sequence[RunResult]], bool], *, seed: int | None = None,
        full_first: bool = False, observer: Observer = lambda event: None,
    ) -> None:  # fmt: skip
        """Make groups of runs of the request's stack and of the plugins `without`, until they are
        enough. Ctrl-C raises KeyboardInterrupt.

        :param enough: called with all runs; may raise NoFigure.
        :param seed: of order and runs; drawn by the number of the trial otherwise.
        :param full_first: whether the request's stack goes first in each group.
        """
        measure = attrs.evolve(request.recipe.measure, objective=self.objective)
        request = attrs.evolve(request, recipe=attrs.evolve(request.recipe, measure=measure))
        in_turns = can_take_turns(request.recipe.workload, self.objective)
        warm = RUN_SECONDS_IN_TURNS if in_turns else RUN_SECONDS
        if seed is None:
            seed = random.Random(f"{self.tune.seed} {self._number}").randrange(2**31)
        groups = Groups(
            request=request, prepared=prepared, runner=self.tune.trial_runner, store=None,
            observer=observer, without=without, enough=enough,
            full_first=full_first,
            state=MeasurementState(
                seed=seed, pairs=MOST_PAIRS,
                warm_seconds=None if self.objective == "time-to-target" else warm,
            ),
        )  # fmt: skip
        groups.go()
        if groups.interrupted:
            raise KeyboardInterrupt

    def __call__(self, planned: StackTrial) -> StackTrial:
        """Carry out a trial of a stack. A failure is a result too; Ctrl-C raises KeyboardInterrupt.

        :param planned: the trial before it is made.
        """
        begun, trial = self.tune.now(), _TrialUnderWay(planned, self.objective)
        try:
            prepared, request = self.prepared(plugins=stacked(planned.stack))
            trial.note_ineffective(prepared.not_applied)
            # with the settings that its plugins chose
            stack = [
                TunedPlugin(name=o.name, settings=to_json(o.settings)) for o in request.plugins
            ]
            trial.trial = attrs.evolve(planned, stack=tuple(stack))
            self.compare(prepared, request, stacked(planned.without), trial.is_decided)
            trial.leave_out_ineffective(request)
        except (NoFigure, TfoptError) as error:
            ended = no_figure_of(error)
            trial.ends(ended.outcome, ended.reason)
        return attrs.evolve(trial.trial, seconds=self.tune.now() - begun)


@attrs.define(eq=False)
class _TrialUnderWay:
    """A trial of a stack under way, with its figures so far.

    :param left_out: the plugins of the trial that took no effect, with the reason.
    """

    trial: StackTrial
    objective: Objective
    left_out: dict[str, str] = attrs.field(factory=dict)

    def is_decided(self, runs: Sequence[RunResult]) -> bool:
        """Return whether these runs decide.

        :raises NoFigure: if no plugin that is tried took effect, or a run failed.
        """
        last = {run.variant: run for run in runs if run.round == runs[-1].round}
        adds, with_, without = self.trial.action == "add", last.get(FULL), last.get(BASELINE)
        if with_ is not None:
            check_ended(with_)
            self.note_ineffective(
                {name: one.detail for name, one in with_.effects.items() if not one.applied}
            )
        if with_ is None or without is None:
            return False
        if not without.ok and without.out_of_memory:
            helps = TrialOutcome.IN if adds else TrialOutcome.STAYS
            return self.ends(helps, "it fits into memory, and does not without it")
        check_ended(without, "the run without it failed: ")
        if self.objective == "time-to-target" and with_.fit.seconds_to_target is None:
            # counted with its wall time, a stack that is fast and learns nothing would win
            if without.fit.seconds_to_target is None:
                raise NoFigure(TrialOutcome.FAILED, "neither run of a pair reached the target")
            harms = TrialOutcome.WORSE if adds else TrialOutcome.DROPPED
            # the figures of earlier pairs did not decide
            self.trial = attrs.evolve(
                self.trial, ratio=None, low=None, high=None, confidence=None, pairs=0
            )
            return self.ends(harms, "it never reached the target with it")
        log_ratios = [log_ratio(self.objective, pair) for pair in pairs_of(runs)]
        ended = decided(self.trial, log_ratios)
        self.trial = ended or with_figures(self.trial, log_ratios)
        return ended is not None

    def ends(self, outcome: TrialOutcome, reason: str) -> bool:
        """Take the outcome. Return True."""
        self.trial = attrs.evolve(self.trial, outcome=outcome, reason=reason)
        return True

    def note_ineffective(self, reasons: Mapping[str, str]) -> None:
        """Note which plugins that are tried took no effect: the figure is that of the others.

        :raises NoFigure: if none of them took one.
        """
        plugins = self.trial.plugins
        self.left_out |= {name: reasons[name] for name in plugins if name in reasons}
        if self.left_out.keys() >= set(plugins):
            raise NoFigure(TrialOutcome.NOT_APPLIED, self.left_out[self.trial.plugin])

    def leave_out_ineffective(self, request: Request) -> None:
        """Take plugins without effect out of the trial, but for those that others require."""
        required = {
            name
            for one in request.plugins
            if one.name not in self.left_out
            for name in one.plugin.requires
        }
        gone = {name: reason for name, reason in self.left_out.items() if name not in required}
        plugin, *joined_by = (name for name in self.trial.plugins if name not in gone)
        self.trial = attrs.evolve(
            self.trial, plugin=plugin, joined_by=tuple(joined_by), left_out=gone,
            stack=tuple(one for one in self.trial.stack if one.name not in gone),
        )  # fmt: skip


# Figures


def log_ratio(objective: Objective, pair: Pair) -> float:
    """Return ln(figure without / figure with) of a pair of runs that ended well.

    :raises NoFigure: if a figure is missing.
    """
    runs = (pair.without, pair.with_)
    if objective == "memory":
        for figure in ("peak_device_bytes", "peak_rss_bytes"):
            before, after = (getattr(run, figure) for run in runs)
            if before and after:
                return math.log(before / after)
        raise NoFigure(TrialOutcome.FAILED, "the peak memory of its runs is not known")
    kind = ComparisonKind.END_TO_END
    if objective == "time-to-target":
        kind = ComparisonKind.TIME_TO_TARGET
    elif any(not_projected(run) is not None for run in runs):
        kind = ComparisonKind.STEPS
    figures = compared_seconds([pair], kind)
    if isinstance(figures, str):
        raise NoFigure(TrialOutcome.FAILED, figures)
    (before,), (after,) = figures
    return math.log(before / after)


def check_ended(run: RunResult, what: str = "") -> None:
    """Check that a run ended well.

    :param what: begins the reason where it did not.
    :raises NoFigure: with the first line of the cause.
    """
    if not run.ok:
        failed, memory = TrialOutcome.FAILED, TrialOutcome.OUT_OF_MEMORY
        cause = first_line(run.error or "")
        raise NoFigure(memory if run.out_of_memory else failed, f"{what}{cause}")


def no_figure_of(error: NoFigure | TfoptError) -> NoFigure:
    """Return the outcome of a trial that ended with this error."""
    if isinstance(error, NoFigure):
        return error
    reason = first_line(error)
    if error.out_of_memory:
        return NoFigure(TrialOutcome.OUT_OF_MEMORY, reason)
    refused = isinstance(error, InputError)
    return NoFigure(TrialOutcome.REFUSED if refused else TrialOutcome.FAILED, reason)
