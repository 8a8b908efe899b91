"""Make one trial: a dry build of the stack, and pairs of short runs with and without the plugin."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence

import attrs

from tfopt_core.errors import InputError, PreparationFailed, RecipeError, TfoptError
from tfopt_core.hooks.card import traits
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.measurement.schedule import Schedule
from tfopt_core.recipe import Objective
from tfopt_core.recipe.model import TuneObjective
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Tell
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL, ScheduledRun, Variant
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.statistics.figures import Pair, compared_seconds, not_projected
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import Request
from tfopt_core.tuning.context import RUN_SECONDS, RUN_SECONDS_IN_TURNS, ProcessDeadline
from tfopt_core.tuning.contrast import Decision, OnPair, contrasted, decided
from tfopt_core.tuning.results import StackTrial, TrialOutcome, TunedPlugin
from tfopt_core.tuning.stacks import stacked
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.turns import CannotTakeTurns, TurnsOfProcesses, can_take_turns


@attrs.define(kw_only=True, eq=False)
class TrialRunner:
    """Makes the trials of a search in worker processes.

    :param request: the request of the search, without plugins.
    :param objective: the figure whose ratio decides.
    :param deadline: the limit of a process, which the runner's limits call.
    :param seed: of the order and the seeds of all runs.
    """

    request: Request
    runner: Runner
    objective: Objective
    deadline: ProcessDeadline
    seed: int
    now: Callable[[], float] = time.monotonic
    _number: int = 0

    def __call__(self, planned: StackTrial, on_pair: OnPair) -> StackTrial:
        """Carry out a trial. A failure is a result too; Ctrl-C raises KeyboardInterrupt.

        :param planned: the trial before it is made.
        """
        self._number += 1
        return _Trial(trial=planned, runs=self, number=self._number, on_pair=on_pair).carry_out()

    def pair_of(self, processes: Processes, scheduled: Sequence[ScheduledRun]) -> list[RunResult]:
        """Train both sides of a pair, in turns if they can, and return their runs."""
        if can_take_turns(self.request.recipe.workload, self.objective):
            run = functools.partial(self._run, processes, in_turns=True)
            turns = TurnsOfProcesses(
                [functools.partial(run, one) for one in scheduled],
                random.Random(scheduled[0].seed), self.deadline.paused,
                functools.partial(self.deadline.end, "interrupted"),
            )  # fmt: skip
            with contextlib.suppress(CannotTakeTurns):
                runs = turns.carry_out()
                if all(one.ok or one.error == self.deadline.too_long for one in runs):
                    return runs
            # beside another process less memory is free, so a failure counts where it is alone
        return [self._run(processes, one, lambda message: None) for one in scheduled]

    def _run(
        self, processes: Processes, scheduled: ScheduledRun, tell: Tell, *, in_turns: bool = False
    ) -> RunResult:
        self.deadline.begin()
        longest = RUN_SECONDS_IN_TURNS if in_turns else RUN_SECONDS
        run_id = f"{processes.request.folder.name}-{scheduled.round}-{scheduled.position}"
        return processes.run(
            scheduled, run_id, tell,
            warm_seconds=None if self.objective == "time-to-target" else longest,
            in_turns=in_turns,
        )  # fmt: skip


@attrs.define(kw_only=True, eq=False)
class _Trial:
    """One trial under way.

    `left_out` are the plugins of the trial that took no effect, with the reason.
    """

    trial: StackTrial
    runs: TrialRunner
    number: int
    on_pair: OnPair
    log_ratios: list[float] = attrs.field(factory=list)
    left_out: dict[str, str] = attrs.field(factory=dict)

    def carry_out(self) -> StackTrial:
        """Build the stack, make the pairs, and return what became of it."""
        begun = self.runs.now()
        try:
            request = self._prepared()
            # with the settings that its plugins chose
            stack = (TunedPlugin(name=o.name, settings=plain(o.settings)) for o in request.plugins)
            self.trial = attrs.evolve(self.trial, stack=tuple(stack))
            decision = self._pairs(request)
            if self.left_out:
                self.trial = _without_ineffective(self.trial, self.left_out, request)
        except (NoFigure, TfoptError) as error:
            ended = no_figure_of(error)
            decision = Decision(ended.outcome, ended.reason)
        assert decision.outcome is not None
        figures = attrs.asdict(contrasted(self.log_ratios)) if self.log_ratios else {}
        return attrs.evolve(
            self.trial, outcome=decision.outcome, reason=decision.reason,
            seconds=self.runs.now() - begun, **figures,
        )  # fmt: skip

    def _prepared(self) -> Request:
        """Make the dry build of the side with the plugin. Return its request.

        :raises NoFigure: if no plugin that is tried takes effect, or one changes the training.
        """
        request = attrs.evolve(
            self.runs.request, plugins=stacked(self.trial.stack),
            folder=self.runs.request.folder / f"trial-{self.number:03d}",
        )  # fmt: skip
        self.runs.deadline.begin()
        prepared, request = prepare(request, self.runs.runner)
        check_math(prepared, self.runs.objective)
        self._note_ineffective(prepared.not_applied)
        return request

    def _pairs(self, request: Request) -> Decision:
        """Make pairs of runs until they decide.

        :raises NoFigure: if no plugin that is tried took effect, or a run failed.
        """
        rest = stacked(self.trial.without)
        sides = (
            Variant(f"without {self.trial.plugin}" if rest else BASELINE, rest),
            Variant(FULL, request.plugins),
        )
        processes = Processes(request, self.runs.runner)
        schedule = Schedule(random.Random(f"{self.runs.seed} {self.number}").randrange(2**31))
        while True:
            scheduled = schedule.runs(len(self.log_ratios), sides)
            runs = {one.variant: one for one in self.runs.pair_of(processes, scheduled)}
            without, with_ = (runs[side.name] for side in sides)
            if not with_.ok:
                outcome = TrialOutcome.OUT_OF_MEMORY if with_.out_of_memory else TrialOutcome.FAILED
                raise NoFigure(outcome, cause_of(with_))
            self._note_ineffective(
                {name: one.detail for name, one in with_.effects.items() if not one.applied}
            )
            if not without.ok:
                return self._only_with(without)
            if self.runs.objective == "time-to-target" and misses_target(with_):
                return self._missed(without)
            self.log_ratios.append(log_ratio(self.runs.objective, without, with_))
            self.on_pair(contrasted(self.log_ratios))
            decision = decided(self.trial.action, self.log_ratios)
            if decision.outcome is not None:
                return decision

    def _only_with(self, without: RunResult) -> Decision:
        """Return the decision where only the run with the plugins ended well.

        :raises NoFigure: if it was not memory that the other one lacked.
        """
        if not without.out_of_memory:
            reason = f"the run without it failed: {cause_of(without)}"
            raise NoFigure(TrialOutcome.FAILED, reason)
        outcome = TrialOutcome.IN if self.trial.action == "add" else TrialOutcome.STAYS
        return Decision(outcome, "it fits into memory, and does not without it")

    def _missed(self, without: RunResult) -> Decision:
        """Return the decision where the run with the plugins never reached the target. Counted with
        its wall time, a stack that is fast and learns nothing would win.

        :raises NoFigure: if the other run missed it too.
        """
        if misses_target(without):
            raise NoFigure(TrialOutcome.FAILED, "neither run of a pair reached the target")
        self.log_ratios.clear()  # those of earlier pairs did not decide
        outcome = TrialOutcome.WORSE if self.trial.action == "add" else TrialOutcome.DROPPED
        return Decision(outcome, "it never reached the target with it")

    def _note_ineffective(self, reasons: Mapping[str, str]) -> None:
        """Note which plugins that are tried took no effect: the figure is that of the others.

        :raises NoFigure: if none of them took one.
        """
        plugins = self.trial.plugins
        self.left_out |= {name: reasons[name] for name in plugins if name in reasons}
        if self.left_out.keys() >= set(plugins):
            raise NoFigure(TrialOutcome.NOT_APPLIED, self.left_out[self.trial.plugin])


def _without_ineffective(
    trial: StackTrial, left_out: Mapping[str, str], request: Request
) -> StackTrial:
    """Return the trial without plugins that took no effect, but for those that others require."""
    required = {
        name
        for one in request.plugins
        if one.name not in left_out
        for name in traits(one.name, type(one.plugin)).requires
    }
    gone = {name: reason for name, reason in left_out.items() if name not in required}
    plugin, *joined_by = (name for name in trial.plugins if name not in gone)
    return attrs.evolve(
        trial, plugin=plugin, joined_by=tuple(joined_by), left_out=gone,
        stack=tuple(one for one in trial.stack if one.name not in gone),
    )  # fmt: skip


# Figures


class NoFigure(Exception):
    """A trial without a figure: its outcome and the reason."""

    def __init__(self, outcome: TrialOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


def log_ratio(objective: Objective, without: RunResult, with_: RunResult) -> float:
    """Return ln(figure without / figure with) of a pair of runs that ended well.

    :raises NoFigure: if a figure is missing.
    """
    if objective == "memory":
        before, after = _peaks(without, with_)
    else:
        kind = ComparisonKind.END_TO_END
        if objective == "time-to-target":
            kind = ComparisonKind.TIME_TO_TARGET
        elif any(not_projected(run) is not None for run in (without, with_)):
            kind = ComparisonKind.STEPS
        figures = compared_seconds([Pair(without, with_)], kind)
        if isinstance(figures, str):
            raise NoFigure(TrialOutcome.FAILED, figures)
        (before,), (after,) = figures
    return math.log(before / after)


def misses_target(run: RunResult) -> bool:
    """Return whether a run that ended well never reached the target."""
    return run.fit.seconds_to_target is None


def check_math(prepared: Prepared, objective: TuneObjective) -> None:
    """Check that no plugin changes the training where nothing reads how it learns.

    :raises NoFigure: naming the plugin.
    """
    if objective not in ("time", "memory"):
        return
    for one in prepared.plugins:
        if one.equivalence == "changes":
            why = f'{one.name} changes the training, which "{objective}" may not'
            raise NoFigure(TrialOutcome.REFUSED, why)


def _peaks(without: RunResult, with_: RunResult) -> tuple[float, float]:
    for figure in ("peak_device_bytes", "peak_rss_bytes"):
        before, after = getattr(without, figure), getattr(with_, figure)
        if before and after:
            return before, after
    raise NoFigure(TrialOutcome.FAILED, "the peak memory of its runs is not known")


def cause_of(run: RunResult) -> str:
    """Return the first line of why a run failed."""
    return next(iter((run.error or "").strip().splitlines()), "no cause is known")


def no_figure_of(error: NoFigure | TfoptError) -> NoFigure:
    """Return the outcome of a trial that ended with this error."""
    if isinstance(error, NoFigure):
        return error
    if isinstance(error, RecipeError):
        reason = error.problems[0].message
    else:
        text = error.cause if isinstance(error, PreparationFailed) else str(error)
        reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if error.out_of_memory:
        return NoFigure(TrialOutcome.OUT_OF_MEMORY, reason)
    refused = isinstance(error, InputError)
    return NoFigure(TrialOutcome.REFUSED if refused else TrialOutcome.FAILED, reason)
