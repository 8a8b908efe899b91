"""Make one trial: a dry build of the stack, and pairs of short runs with and without the plugin."""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Callable, Mapping, Sequence

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.card import traits
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.recipe import Objective
from tfopt_core.records.messages import Tell
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL, ScheduledRun, Variant
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.tuning.contrast import Decision, OnPair, TrialPlan, contrasted
from tfopt_core.tuning.deadline import RUN_SECONDS, RUN_SECONDS_IN_TURNS, ProcessDeadline
from tfopt_core.tuning.results import StackTrial, TrialOutcome, TunedPlugin
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.trial_figures import (
    NoFigure,
    cause_of,
    check_math,
    decision_of,
    log_ratio,
    misses_target,
)
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

    def __call__(self, plan: TrialPlan, on_pair: OnPair) -> StackTrial:
        """Carry out a trial. A failure is a result too; Ctrl-C raises KeyboardInterrupt."""
        self._number += 1
        return _Trial(plan=plan, runs=self, number=self._number, on_pair=on_pair).carry_out()

    def pair_of(
        self, processes: Processes, sides: Sequence[Variant], number: int, pair: int
    ) -> list[RunResult]:
        """Train both sides of a pair, in turns if they can. Return their runs in this order.

        Pairs are ABBA or BAAB, drawn anew for each two.
        """
        first = random.Random(f"{self.seed} {number} {pair // 2}").randrange(2)
        seed = random.Random(f"{self.seed} {number} {pair} seed").randrange(1, 2**31)
        order = sides if (first + pair) % 2 else sides[::-1]
        scheduled = [
            ScheduledRun(pair, place, variant, seed) for place, variant in enumerate(order)
        ]
        runs = {run.variant: run for run in self._trained(processes, scheduled)}
        return [runs[variant.name] for variant in sides]

    def _trained(self, processes: Processes, scheduled: Sequence[ScheduledRun]) -> list[RunResult]:
        if self._in_turns:
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

    @property
    def _in_turns(self) -> bool:
        """Whether the two sides of a pair train in turns."""
        return can_take_turns(self.request.recipe.workload, self.objective)


@attrs.define(kw_only=True, eq=False)
class _Trial:
    """One trial under way.

    `left_out` are the plugins of the plan that took no effect, with the reason.
    """

    plan: TrialPlan
    runs: TrialRunner
    number: int
    on_pair: OnPair
    log_ratios: list[float] = attrs.field(factory=list)
    left_out: dict[str, str] = attrs.field(factory=dict)

    def carry_out(self) -> StackTrial:
        """Build the stack, make the pairs, and return what became of it."""
        plan, begun = self.plan, self.runs.now()
        trial = StackTrial(
            action=plan.action, plugin=plan.plugin, stack=plan.stack, without=plan.without,
            replaces=plan.replaces, joined_by=plan.joined_by, outcome=TrialOutcome.FAILED,
            reason="",
        )  # fmt: skip
        try:
            request = self._prepared()
            trial = attrs.evolve(trial, stack=_stack_of(request))
            decision = self._pairs(request)
            if self.left_out:
                trial = _without_ineffective(trial, self.left_out, request)
        except (NoFigure, TfoptError) as error:
            decision = decision_of(error)
        assert decision.outcome is not None
        if self.log_ratios:
            found = contrasted(self.log_ratios)
            trial = attrs.evolve(
                trial, ratio=found.ratio, low=found.low, high=found.high,
                confidence=found.confidence, pairs=len(self.log_ratios),
            )  # fmt: skip
        return attrs.evolve(
            trial, outcome=decision.outcome, reason=decision.reason,
            seconds=self.runs.now() - begun,
        )  # fmt: skip

    def _prepared(self) -> Request:
        """Make the dry build of the side with the plugin. Return its request.

        :raises NoFigure: if no plugin that is tried takes effect, or one changes the training.
        """
        request = attrs.evolve(
            self.runs.request, plugins=stacked(self.plan.stack),
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
        rest = stacked(self.plan.without)
        sides = (
            Variant(f"without {self.plan.plugin}" if rest else BASELINE, rest),
            Variant(FULL, request.plugins),
        )
        processes = Processes(request, self.runs.runner)
        while True:
            pair = len(self.log_ratios)
            without, with_ = self.runs.pair_of(processes, sides, self.number, pair)
            self._check(with_)
            if not without.ok:
                return self._only_with(without)
            if self.runs.objective == "time-to-target" and misses_target(with_):
                return self._missed(without)
            self.log_ratios.append(log_ratio(self.runs.objective, without, with_))
            self.on_pair(self.log_ratios)
            decision = self.plan.decide(self.log_ratios)
            if decision.outcome is not None:
                return decision

    def _only_with(self, without: RunResult) -> Decision:
        """Return the decision where only the run with the plugins ended well.

        :raises NoFigure: if it was not memory that the other one lacked.
        """
        if not without.out_of_memory:
            reason = f"the run without it failed: {cause_of(without)}"
            raise NoFigure(TrialOutcome.FAILED, reason)
        outcome = TrialOutcome.IN if self.plan.action == "add" else TrialOutcome.STAYS
        return Decision(outcome, "it fits into memory, and does not without it")

    def _missed(self, without: RunResult) -> Decision:
        """Return the decision where the run with the plugins never reached the target. Counted with
        its wall time, a stack that is fast and learns nothing would win.

        :raises NoFigure: if the other run missed it too.
        """
        if misses_target(without):
            raise NoFigure(TrialOutcome.FAILED, "neither run of a pair reached the target")
        self.log_ratios.clear()  # those of earlier pairs did not decide
        outcome = TrialOutcome.WORSE if self.plan.action == "add" else TrialOutcome.DROPPED
        return Decision(outcome, "it never reached the target with it")

    def _check(self, run: RunResult) -> None:
        """Check the run with the plugins.

        :raises NoFigure: if none of those that are tried took effect, or it failed.
        """
        if not run.ok:
            outcome = TrialOutcome.OUT_OF_MEMORY if run.out_of_memory else TrialOutcome.FAILED
            raise NoFigure(outcome, cause_of(run))
        self._note_ineffective(
            {name: one.detail for name, one in run.effects.items() if not one.applied}
        )

    def _note_ineffective(self, reasons: Mapping[str, str]) -> None:
        """Note which plugins that are tried took no effect: the figure is that of the others.

        :raises NoFigure: if none of them took one.
        """
        plugins = self.plan.plugins
        self.left_out |= {name: reasons[name] for name in plugins if name in reasons}
        if self.left_out.keys() >= set(plugins):
            raise NoFigure(TrialOutcome.NOT_APPLIED, self.left_out[self.plan.plugin])


def _stack_of(request: Request) -> Stack:
    """Return the stack of a request with the settings that its plugins chose."""
    return tuple(
        TunedPlugin(name=one.name, settings=plain(one.settings)) for one in request.plugins
    )


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
