"""Make one trial: a dry build of the stack, and pairs of short runs with and without the plugin."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import InputError, PreparationFailed, RecipeError, TfoptError
from tfopt_core.hooks.card import traits
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import Objective, PluginEntry, TargetSpec
from tfopt_core.records.messages import Tell
from tfopt_core.records.results import RunResult
from tfopt_core.records.tuning import StackTrial, TrialOutcome, TunedPlugin
from tfopt_core.records.variants import BASELINE, FULL, Turn, Variant
from tfopt_core.statistics.figures import compared_seconds, not_projected
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import Pair
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.tuning.contrast import Decision, contrasted
from tfopt_core.tuning.stacks import Stack
from tfopt_core.tuning.trial_plan import OnPair, TrialPlan
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.turns import TurnsOfProcesses, can_take_turns

# A run of a trial is cut after this many seconds of timed steps, or of those in turns.
RUN_SECONDS, RUN_SECONDS_IN_TURNS = 6.0, 3.0
# A side of a pair trains so long before it is the other's turn: four turns in such a run.
TURN_SECONDS = RUN_SECONDS_IN_TURNS / 4
# One process of a trial may take this share of the budget, and at least so many seconds.
PROCESS_SHARE, LEAST_PROCESS_SECONDS = 1 / 6, 120.0


class NoFigure(Exception):
    """A trial without a figure: its outcome and the reason."""

    def __init__(self, outcome: TrialOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


@attrs.define(eq=False)
class ProcessDeadline:
    """Says of the current process of a trial whether it took too long, as `Limits.called_off`.

    :param seconds: how long a process may take.
    """

    seconds: float
    now: Callable[[], float] = time.monotonic
    _end: float = math.inf
    _reason: str | None = None

    def begin(self) -> None:
        """Note that a process begins."""
        self._end, self._reason = self.now() + self.seconds, None

    def lift(self) -> None:
        """Note that what follows may take as long as it takes."""
        self._end, self._reason = math.inf, None

    def end(self, reason: str) -> None:
        """End the current process for another reason."""
        self._reason = reason

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Have the time of the current process stand still, while another one may have its own."""
        left = self._end - self.now()
        try:
            yield
        finally:
            self._end = self.now() + left

    def __call__(self) -> str | None:
        """Return why to end the process, None if it may go on."""
        if self._reason is not None:
            return self._reason
        return self.too_long if self.now() > self._end else None

    @property
    def too_long(self) -> str:
        """The reason where it is the time."""
        return f"it took more than {self.seconds:.0f} s"


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

    @property
    def _in_turns(self) -> bool:
        """Whether the two sides of a pair train in turns."""
        # for memory, the one's peak would count what the other holds; a training to a target is
        # whole, and at the end of an epoch threads may sleep until a time of day
        return self.objective == "time" and can_take_turns(self.request.machine)

    def __call__(self, plan: TrialPlan, on_pair: OnPair) -> StackTrial:
        """Carry out a trial. A failure is a result too; Ctrl-C raises KeyboardInterrupt."""
        self._number += 1
        begun = self.now()
        trial = StackTrial(
            action=plan.action, plugin=plan.plugin, stack=plan.stack, without=plan.without,
            replaces=plan.replaces, joined_by=plan.joined_by, outcome=TrialOutcome.FAILED,
            reason="",
        )  # fmt: skip
        log_ratios: list[float] = []
        left_out: dict[str, str] = {}
        try:
            request, resolved = self._prepared(plan, left_out)
            trial = attrs.evolve(trial, stack=resolved)
            decision = self._pairs(plan, request, log_ratios, left_out, on_pair)
            if left_out:
                trial = _without_ineffective(trial, left_out, request)
        except (NoFigure, TfoptError) as error:
            decision = decision_of(error)
        assert decision.outcome is not None
        if log_ratios:
            found = contrasted(log_ratios)
            trial = attrs.evolve(
                trial, ratio=found.ratio, low=found.low, high=found.high,
                confidence=found.confidence, pairs=len(log_ratios),
            )  # fmt: skip
        return attrs.evolve(
            trial, outcome=decision.outcome, reason=decision.reason, seconds=self.now() - begun
        )

    def _prepared(self, plan: TrialPlan, left_out: dict[str, str]) -> tuple[Request, Stack]:
        """Make the dry build of the side with the plugin. Return its request, and its stack.

        :param left_out: is given the plugins of the plan that take no effect.
        :raises NoFigure: if all of them do.
        """
        folder = self.request.folder / f"trial-{self._number:03d}"
        request = attrs.evolve(self.request, plugins=stacked(plan.stack), folder=folder)
        self.deadline.begin()
        prepared, request = prepare(request, self.runner)
        _note_ineffective(plan, prepared.not_applied, left_out)
        stack = tuple(
            TunedPlugin(name=one.name, settings=plain(one.settings)) for one in request.plugins
        )
        return request, stack

    def _pairs(
        self,
        plan: TrialPlan,
        request: Request,
        log_ratios: list[float],
        left_out: dict[str, str],
        on_pair: OnPair,
    ) -> Decision:
        """Make pairs of runs until they decide; ABBA or BAAB, drawn anew for each two."""
        rest = stacked(plan.without)
        sides = (
            Variant(f"without {plan.plugin}" if rest else BASELINE, rest),
            Variant(FULL, request.plugins),
        )
        processes = Processes(request, self.runner)
        while True:
            pair = len(log_ratios)
            first = random.Random(f"{self.seed} {self._number} {pair // 2}").randrange(2)
            seed = random.Random(f"{self.seed} {self._number} {pair} seed").randrange(1, 2**31)
            order = sides if (first + pair) % 2 else sides[::-1]
            scheduled = [Turn(pair, place, variant, seed) for place, variant in enumerate(order)]
            runs = {run.variant: run for run in self._pair(processes, scheduled)}
            without, with_ = (runs[variant.name] for variant in sides)
            fits = _fitting(plan, without, with_, left_out)
            if fits is not None:
                return fits
            target = self.request.recipe.measure.target
            log_ratios.append(log_ratio(self.objective, target, without, with_))
            on_pair(log_ratios)
            decision = plan.decide(log_ratios)
            if decision.outcome is not None:
                return decision

    def _pair(self, processes: Processes, scheduled: Sequence[Turn]) -> list[RunResult]:
        """Train both sides of a pair, in turns if they can."""
        if self._in_turns:
            run = functools.partial(self._run, processes, in_turns=True)
            runs = TurnsOfProcesses(
                [functools.partial(run, one) for one in scheduled], self.deadline.paused,
                functools.partial(self.deadline.end, "interrupted"),
            ).carry_out()  # fmt: skip
            if all(one.ok or one.error == self.deadline.too_long for one in runs):
                return runs
            # beside another process less memory is free, so a failure counts where it is alone
        return [self._run(processes, one, lambda message: None) for one in scheduled]

    def _run(
        self, processes: Processes, turn: Turn, tell: Tell, *, in_turns: bool = False
    ) -> RunResult:
        self.deadline.begin()
        longest = RUN_SECONDS_IN_TURNS if in_turns else RUN_SECONDS
        run_id = f"{processes.request.folder.name}-{turn.round}-{turn.position}"
        return processes.run(
            turn, run_id, tell,
            longest_seconds=None if self.objective == "time-to-target" else longest,
            turn_seconds=TURN_SECONDS if in_turns else None,
        )  # fmt: skip


def stacked(stack: Stack) -> tuple[StackedPlugin, ...]:
    """Return the configured plugins of a stack.

    :raises InputError: with the first problem of a setting, or between plugins.
    """
    entries = [PluginEntry(one.name, dict(one.settings)) for one in stack]
    plugins, problems = assemble(entries)
    if problems:
        raise InputError(problems[0].message)
    return plugins


def log_ratio(
    objective: Objective, target: TargetSpec | None, without: RunResult, with_: RunResult
) -> float:
    """Return ln(figure without / figure with) of a pair of runs that ended well.

    :raises NoFigure: if a figure is missing.
    """
    if objective == "memory":
        before, after = _peaks(without, with_)
    else:
        judgement = _judgement(objective, target, without, with_)
        figures = compared_seconds([Pair(without, with_)], judgement)
        if isinstance(figures, str):
            raise NoFigure(TrialOutcome.FAILED, figures)
        (before,), (after,) = figures
    return math.log(before / after)


def _judgement(objective: Objective, target: TargetSpec | None, *runs: RunResult) -> Judgement:
    return Judgement(
        metric="", direction="max", tolerance=None, examples=None, math="exact", target=target,
        sequential=False, objective=objective, projected=any(not run.complete for run in runs),
        per_step=any(not_projected(run) is not None for run in runs),
    )  # fmt: skip


def process_seconds(budget: float) -> float:
    """Return how many seconds a process of a trial may take, with this budget in seconds."""
    return max(LEAST_PROCESS_SECONDS, PROCESS_SHARE * budget)


def _note_ineffective(
    plan: TrialPlan, reasons: Mapping[str, str], left_out: dict[str, str]
) -> None:
    """Note which plugins that are tried took no effect: the figure is that of the others.

    :raises NoFigure: if none of them took one.
    """
    left_out |= {name: reasons[name] for name in plan.plugins if name in reasons}
    if left_out.keys() >= set(plan.plugins):
        raise NoFigure(TrialOutcome.NOT_APPLIED, left_out[plan.plugin])


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


def _fitting(
    plan: TrialPlan, without: RunResult, with_: RunResult, left_out: dict[str, str]
) -> Decision | None:
    """Return the decision on a pair of which a run does not count; None if both do.

    :raises NoFigure: if no plugin that is tried took effect, or a run failed.
    """
    if not with_.ok:
        outcome = TrialOutcome.OUT_OF_MEMORY if with_.out_of_memory else TrialOutcome.FAILED
        raise NoFigure(outcome, cause_of(with_))
    reasons = {name: one.detail for name, one in with_.effects.items() if not one.applied}
    _note_ineffective(plan, reasons, left_out)
    if without.ok:
        return None
    if without.out_of_memory:
        outcome = TrialOutcome.IN if plan.action == "add" else TrialOutcome.STAYS
        return Decision(outcome, "it fits into memory, and does not without it")
    raise NoFigure(TrialOutcome.FAILED, f"the run without it failed: {cause_of(without)}")


def _peaks(without: RunResult, with_: RunResult) -> tuple[float, float]:
    for figure in ("peak_device_bytes", "peak_rss_bytes"):
        before, after = getattr(without, figure), getattr(with_, figure)
        if before and after:
            return before, after
    raise NoFigure(TrialOutcome.FAILED, "the peak memory of its runs is not known")


def cause_of(run: RunResult) -> str:
    """Return the first line of why a run failed."""
    lines: Mapping[Any, None] = dict.fromkeys((run.error or "").strip().splitlines())
    return next(iter(lines), "no cause is known")


def decision_of(error: NoFigure | TfoptError) -> Decision:
    """Return the outcome of a trial that ended with this error."""
    if isinstance(error, NoFigure):
        return Decision(error.outcome, error.reason)
    if isinstance(error, RecipeError):
        reason = error.problems[0].message
    else:
        text = error.cause if isinstance(error, PreparationFailed) else str(error)
        reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    if error.out_of_memory:
        return Decision(TrialOutcome.OUT_OF_MEMORY, reason)
    refused = isinstance(error, InputError)
    return Decision(TrialOutcome.REFUSED if refused else TrialOutcome.FAILED, reason)
