"""Run the rounds of a measurement: choose the next run, and decide when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from time import process_time

import attrs

from tfopt_core.errors import EditedMeanwhile, describe
from tfopt_core.measurement import progress
from tfopt_core.measurement.conclude import Stop
from tfopt_core.measurement.edits import CodeAtStart
from tfopt_core.measurement.pace import FOR_A_FIRST_VERDICT, World, round_seconds
from tfopt_core.measurement.planned_runs import PlannedRuns
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.run_maker import RunMaker
from tfopt_core.measurement.schedule import Schedule, baseline_and_full
from tfopt_core.measurement.waiting import Waiting, add_waiting
from tfopt_core.records.messages import Tell
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import FULL, ScheduledRun
from tfopt_core.statistics.disturbance import disturbance
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.verdicts.stopping import (
    failed_for_good,
    no_pair_possible,
    settled,
    speedup_so_far,
)
from tfopt_core.statistics.verdicts.verdict import compare
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.store.database import Store
from tfopt_core.trials.processes import Processes
from tfopt_core.workers.fork import ForkRunner
from tfopt_core.workers.interrupts import HoldInterrupt
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.turns import TurnsOfProcesses, can_take_turns

# Why the second contrast is measured no further.
NO_TIME = "the budget holds no more runs of it beside those of the verdict"
TOO_LITTLE_TIME = "what the verdict leaves of the budget does not hold four rounds of it"
NO_TIME_TO_ISOLATE = (
    "no further runs without one plugin each: the budget holds no more of them beside the pairs of "
    "a first verdict"
)


@attrs.define(kw_only=True, eq=False)
class Rounds:
    """The rounds of one measurement, run after run.

    After `go`, `stop` says why there are no more runs.

    :param waiting: what is tried for a second contrast once the first verdict is there.
    """

    planned: PlannedRuns
    runner: Runner
    store: Store
    observer: Observer
    world: World
    code: CodeAtStart = attrs.field(factory=lambda: CodeAtStart({}))
    waiting: Waiting | None = None
    stop: Stop = "done"
    _longest: float | None = attrs.field(default=None, init=False)
    _overrun_told: bool = attrs.field(default=False, init=False)
    _told_after: int | None = attrs.field(default=None, init=False)
    _schedule: Schedule = attrs.field(init=False)
    maker: RunMaker = attrs.field(init=False)

    @_schedule.default
    def _draw_schedule(self) -> Schedule:
        return Schedule(self.planned.state.seed)

    @maker.default
    def _make_maker(self) -> RunMaker:
        # once for all runs: whether their processes start alike is asked of the plugins
        processes = Processes(self.planned.request, self.runner)
        return RunMaker(
            processes=processes, prepared=self.planned.prepared, observer=self.observer
        )  # fmt: skip

    def go(self) -> None:
        """Run rounds until the verdict is settled, the pairs are done or the budget is spent.
        Rounds also end with Ctrl-C, and once there can be no pair."""
        try:
            self.maker.processes.warm_up()
            self._rounds()
        except KeyboardInterrupt:
            self.stop = "interrupted"

    def _rounds(self) -> None:
        round_ = 0
        while round_ < self.planned.pairs:
            if round_ and self.planned.is_missing(round_):
                self._save_for_first_verdict(round_)
                if not self._holds(partial(self.planned.affordable, round_)):
                    self.stop = "budget"
                    return
                self._tell_overrun(round_)
            self._missing_runs(round_)
            if round_ == 0 and all(run.round == 0 for run in self.planned.runs):
                self._decide_after_the_first()
            if no_pair_possible(self.planned.runs):
                return
            round_ += 1
            if self.planned.sequential and round_ == self.planned.pairs:
                if self._settled(round_):
                    self._try_waiting(round_)
                    self._second_contrast(round_)
                    return
                next_look = next(look for look in LOOKS if look > round_)
                if not self._holds(partial(self.planned.within_reach, round_, next_look)):
                    self.stop = "budget"
                    return
                self.planned.pairs = next_look
                budget = seconds_in_words(self.planned.request.recipe.measure.budget_seconds)
                self._tell_verdict(
                    round_, f"more pairs follow, up to {next_look} within the budget of {budget}"
                )

    def _settled(self, rounds: int) -> bool:
        """Return whether more pairs than these could not change the verdict. It stays settled
        while rounds of the second contrast follow, over a resume too."""
        planned = self.planned
        already = planned.state.settled_after == rounds
        return already or settled(planned.runs, planned.judgement(), rounds)

    def _try_waiting(self, rounds: int) -> None:
        """Tell the verdict, which is final, and try what waited for it where the budget holds its
        rounds. Whatever ends that, the verdict stands.

        :param rounds: those that the verdict rests on.
        """
        waiting, planned = self.waiting, self.planned
        if waiting is None:
            return
        sides = baseline_and_full(planned.request.plugins)
        a_run = round_seconds(planned.alike(), sides) / len(sides)
        # four rounds of three runs, and two replays
        missing = waiting.seconds + (LOOKS[0] * (len(sides) + 1) + 2) * a_run
        if not planned.pace.fits(missing):
            return
        planned.decide(settled_after=rounds)
        names = ", ".join(waiting.names)
        self._tell_verdict(rounds, f"it is final; what follows tries {names} on top of the stack")
        try:
            self.code.check(len(planned.runs))
            if add_waiting(waiting, planned, rounds, self.runner, self.store, self.observer):
                # whether processes start alike is asked of the plugins, of which there are more now
                self.maker = self._make_maker()
            self.code.check(len(planned.runs))
        except (EditedMeanwhile, OSError) as error:
            if not self._end_added(_why_ended(error)):
                self.observer(progress.Noted(f"{names} on top of the stack: {_why_ended(error)}"))

    def _second_contrast(self, rounds: int) -> None:
        """Make the rounds of the second contrast for which the verdict did not wait. Their runs
        change nothing of it.

        :param rounds: those that the verdict rests on.
        """
        added = self.planned.state.added
        if added is None or not self.planned.added(rounds):
            return
        last = added.first_round + LOOKS[0]
        if rounds >= last:
            return
        self.planned.decide(settled_after=rounds)
        if not self.planned.within_reach(rounds, last):
            self._end_added(TOO_LITTLE_TIME)
            return
        names = " and ".join(added.additions)
        self._tell_verdict(rounds, f"runs of {names} on top of the stack follow")
        self.planned.pairs = last
        for round_ in range(rounds, last):
            if self.planned.pace.spent and self.planned.is_missing(round_):
                self._end_added(TOO_LITTLE_TIME)
                return
            try:
                self._missing_runs(round_)
            except EditedMeanwhile as error:
                # the verdict stands: all its runs are from before
                self._end_added(_why_ended(error))
                return
            if added.variant in failed_for_good(self.planned.runs):
                return

    def _tell_verdict(self, rounds: int, follows: str) -> None:
        """Report what the pairs so far say, once, since more runs follow.

        :param follows: what follows, in words.
        """
        planned = self.planned
        if planned.pace.first_verdict is None:
            return
        if self._told_after != rounds:
            comparison = compare(planned.runs, planned.judgement(), planned.seconds_a_round())
            first = "first verdict" if self._told_after is None else "verdict"
            follows = f"{first}, after {rounds} pairs: {comparison.statement}; {follows}"
        self._told_after = rounds
        self.observer(progress.Noted(follows))

    def _missing_runs(self, round_: int) -> None:
        """Make the missing runs of a round, in the order of the schedule."""
        # all runs of a round are cut by one rule; a resumed one may begin within a round
        if self._longest is None or not any(run.round == round_ for run in self.planned.runs):
            self._longest = self.planned.longest_seconds(round_)
        given_up = failed_for_good(self.planned.runs)
        variants = [v for v in self.planned.variants(round_) if v.name not in given_up]
        of_round = [run for run in self.planned.runs if run.round == round_]
        done = {run.variant for run in of_round}
        missing = [
            one for one in self._schedule.runs(round_, variants) if one.variant.name not in done
        ]
        missing = [
            attrs.evolve(one, position=len(of_round) + place) for place, one in enumerate(missing)
        ]
        measure = self.planned.request.recipe.measure
        workload = self.planned.request.recipe.workload
        if missing and self._longest is not None and can_take_turns(workload, measure.objective):
            self._make(missing, in_turns=True)
        else:
            for one in missing:
                self._make([one])

    def _make(self, scheduled: Sequence[ScheduledRun], *, in_turns: bool = False) -> None:
        """Make runs and keep them.

        :raises EditedMeanwhile: if code was edited before their end.
        """
        self.code.check(len(self.planned.runs))
        before, own = self.world.counters(), process_time()
        first = len(self.planned.runs)
        makes = [partial(self._run, one, first + place) for place, one in enumerate(scheduled)]
        runs = self._in_turns(makes) if in_turns else [make(None) for make in makes]
        self.code.check(first)
        own = process_time() - own  # this process draws the display and summarizes the runs
        computed = [run.cpu_seconds for run in runs]
        ours = None if None in computed else math.fsum((own, *filter(None, computed)))
        seen = disturbance(before, self.world.counters(), ours)
        for place, run in enumerate(runs):
            self._keep(attrs.evolve(run, disturbance=seen), first + place)

    def _in_turns(self, makes: Sequence[Callable[[Tell | None], RunResult]]) -> list[RunResult]:
        """Make runs in turns and return them. A failure beside others counts where it is alone:
        less memory is free beside them."""
        ended = nullcontext(lambda: None)
        with self.runner.called_off() if isinstance(self.runner, ForkRunner) else ended as end:
            runs = TurnsOfProcesses(makes, nullcontext, end).carry_out()
        return [run if run.ok else make(None) for run, make in zip(runs, makes, strict=True)]

    def _run(self, scheduled: ScheduledRun, index: int, turn_over: Tell | None) -> RunResult:
        started = progress.RunStarted(
            index=index, total_runs=self.planned.total_runs(), variant=scheduled.variant.name,
            round=scheduled.round, pairs=self.planned.pairs,
        )  # fmt: skip
        return self.maker.make(
            scheduled, f"{self.planned.request.folder.name}-{index:02d}", started=started,
            save=self.planned.request.save_to is not None and scheduled.variant.name == FULL,
            longest_seconds=self._longest, turn_over=turn_over,
        )  # fmt: skip

    def _keep(self, run: RunResult, index: int) -> None:
        """Store a run, and report that it has ended."""
        with HoldInterrupt():
            self.store.add_run(self.planned.request.folder.name, run)
            self.planned.runs.append(run)
        self.observer(
            progress.RunEnded(
                index=index, total_runs=self.planned.total_runs(), run=run,
                speedup_so_far=speedup_so_far(self.planned.runs, self.planned.judgement()),
                seconds_left=self.planned.seconds_left(),
            )
        )  # fmt: skip

    def _end_added(self, why: str) -> bool:
        """Measure the second contrast no further; return whether that saves anything."""
        added = self.planned.state.added
        if added is None or added.why_ended:
            return False
        self.planned.decide(added=attrs.evolve(added, why_ended=why))
        names = " and ".join(added.additions)
        self.observer(progress.Noted(f"{names} on top of the stack: {why}"))
        return True

    def _holds(self, fits: Callable[[], bool]) -> bool:
        """Return whether rounds fit the budget, ending the second contrast if that helps."""
        return fits() or (self._end_added(NO_TIME) and fits())

    def _decide_after_the_first(self) -> None:
        whole = self.planned.state.length == "full"
        may_cut = self.planned.request.recipe.measure.length == "auto"
        if may_cut and whole and self.planned.too_long():
            self.planned.decide(length="steady", same_length_from=1)
            wanted = self.planned.pace.first_verdict is not None
            time = "the time until a first verdict" if wanted else "the budget"
            self.observer(
                progress.Noted(
                    f"four pairs of full trainings do not fit {time}: from now on runs stop once "
                    "their step time is known, and totals are projected"
                )
            )
        if self.planned.state.isolating is None:
            self.planned.decide(isolating=self.planned.worth_isolating())
            if self.planned.state.isolating:
                self.planned.isolate_each()
                self._missing_runs(0)

    def _save_for_first_verdict(self, rounds: int) -> None:
        """Leave out plugins in turn no further where the pairs of a first verdict would overrun the
        budget by it. What the recipe asks for is done all the same.

        :param rounds: those that were made.
        """
        planned = self.planned
        asked = planned.request.recipe.measure.attribution != "auto"
        wanted = planned.pace.first_verdict is not None and rounds < LOOKS[0]
        if asked or not wanted or not planned.extras or planned.within_reach(rounds, LOOKS[0]):
            return
        planned.decide(isolating=False)
        planned.extras, planned.contrasts = [], []
        self.observer(progress.Noted(NO_TIME_TO_ISOLATE))

    def _tell_overrun(self, rounds: int) -> None:
        """Report once that the pairs of the first look overrun the budget.

        :param rounds: those that were made.
        """
        may_overrun = self.planned.state.own_budget and rounds < LOOKS[0]
        if self._overrun_told or not may_overrun or self.planned.within_reach(rounds, LOOKS[0]):
            return
        self._overrun_told = True
        missing = (LOOKS[0] - rounds) * (self.planned.seconds_a_round(rounds) or 0.0)
        needed = seconds_in_words(self.planned.pace.elapsed + missing)
        seconds = self.planned.request.recipe.measure.budget_seconds
        budget = seconds_in_words(seconds)
        longest = seconds_in_words(FOR_A_FIRST_VERDICT * seconds)
        self.observer(
            progress.Noted(
                f"four pairs take about {needed} at the pace of this machine, more than the budget "
                f"of {budget}: there is no verdict without them, so they go on as long as they fit "
                f"into {longest}"
            )
        )


def _why_ended(error: EditedMeanwhile | OSError) -> str:
    if isinstance(error, EditedMeanwhile):
        return f"{', '.join(error.changed)} changed meanwhile"
    return f"it {describe(error)}"
