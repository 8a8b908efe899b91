"""Make the groups of a measurement: a run of each side, which train in turns."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time
from typing import Any

import attrs
from cattrs import unstructure

from tfopt_core.errors import first_line
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement import progress
from tfopt_core.measurement.fingerprint import CodeAtStart
from tfopt_core.measurement.plan import (
    MeasurementState,
    leave_one_out,
    pairs_of_fits,
    schedule,
    seconds_of_fits,
)
from tfopt_core.measurement.progress import Observer
from tfopt_core.statistics.contrasts import Contrast
from tfopt_core.statistics.figures import Judgement, compared_seconds, not_projected
from tfopt_core.statistics.intervals import log_ratios
from tfopt_core.statistics.results import ComparisonKind
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult, pairs_of
from tfopt_core.store.database import Store
from tfopt_core.training.messages import EpochDone, Message, StepDone, Tell
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Prepared, Request, ScheduledRun, Variant
from tfopt_core.workers.fork import called_off
from tfopt_core.workers.interrupts import HoldInterrupt
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.task import TurnOver
from tfopt_core.workers.telemetry import disturbance, read_counters
from tfopt_core.workers.turns import CannotTakeTurns, TurnsOfProcesses, can_take_turns

WAITS = "a run waited for something that the stopped one holds"
ALONE = "{why}, so runs are made one after the other from pair {pair} on"
# Of a run that took too long beside another one nothing else is expected alone.
TOO_LONG = "took longer than its limit"


@attrs.define(kw_only=True, eq=False)
class Groups:
    """The groups of one measurement. `runs` may hold those of an earlier process, which are not
    repeated. After `go`, `interrupted` says whether Ctrl-C ended them.

    :param began: when it began, on this process' monotonic clock, and `created_at` in ISO 8601.
    :param earlier: the seconds that it took before it was resumed.
    :param store: keeps each run as it ends, and the state; None keeps nothing.
    :param full_first: whether the full stack goes first in each group, and not by lot.
    :param without: the plugins of the baseline; those of a search's best stack, for a further one.
    :param enough: called with all runs after each, or each group in turns; whether they decide.
    """

    request: Request
    prepared: Prepared
    state: MeasurementState
    runner: Runner
    store: Store | None
    observer: Observer
    without: tuple[StackedPlugin, ...] = ()
    full_first: bool = False
    enough: Callable[[Sequence[RunResult]], bool] = lambda runs: False
    began: float = attrs.field(factory=time.monotonic)
    created_at: str = ""
    earlier: float = 0.0
    code: CodeAtStart = attrs.field(factory=lambda: CodeAtStart({}))
    runs: list[RunResult] = attrs.field(factory=list)
    interrupted: bool = False
    sides: list[Variant] = attrs.field(init=False)
    contrasts: list[Contrast] = attrs.field(factory=list, init=False)
    _processes: Processes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        request = self.request
        self.sides = [Variant(BASELINE, self.without), Variant(FULL, request.plugins)]
        if self.state.added is not None:
            self.sides.append(Variant(self.state.added.variant, request.added))
        if self.state.isolating:
            extras, self.contrasts = leave_one_out(request.plugins)
            self.sides += extras
        # once for all runs: whether their processes start alike is asked of the plugins
        self._processes = Processes(request, self.runner)

    @property
    def in_turns(self) -> bool:
        """Whether the runs of a group train in turns."""
        recipe, kind = self.request.recipe, self.judgement.kind
        if self.prepared.several_processes or kind is ComparisonKind.TIME_TO_TARGET:
            return False
        may = can_take_turns(recipe.workload, recipe.measure.objective)
        return may and not self.state.one_after_other

    @property
    def judgement(self) -> Judgement:
        """The rules by which the runs so far are judged."""
        return self.judgement_of(self.runs)

    def judgement_of(self, runs: Sequence[RunResult]) -> Judgement:
        """Return the rules by which runs are judged, from recipe, dry build and state."""
        prepared, measure = self.prepared, self.request.recipe.measure
        return Judgement(
            metric=prepared.quality_metric,
            direction="max" if prepared.quality_direction == "max" else "min",
            tolerance=measure.quality.tolerance if measure.quality else None,
            examples=prepared.validation_examples,
            equivalence=prepared.equivalence,
            projected=any(run.ok and not run.complete for run in runs),
            per_step=any(run.ok and not_projected(run) is not None for run in runs),
            certificate=self.state.certificates.get(FULL),
            objective=measure.objective,
            batch_sizes=(prepared.baseline_batch_size, prepared.batch_size),
        )

    @property
    def seconds(self) -> float:
        """How long the measurement has taken, with the time before a resume."""
        return self.earlier + time.monotonic() - self.began

    @property
    def group_seconds(self) -> float | None:
        """About how long a group takes, by those so far; None before the first run."""
        known = [run.process_seconds for run in self.runs if run.process_seconds is not None]
        return math.fsum(known) / len(known) * len(self.sides) if known else None

    @property
    def total_runs(self) -> int:
        """How many runs there will be."""
        return self.state.pairs * len(self.sides)

    def go(self) -> None:
        """Make the groups that are missing. Ctrl-C ends them, and so does a side that never ends
        well: there will be no pair.

        :raises TfoptError: if code was edited before their end.
        """
        try:
            self._processes.warm_up()
            number = 0
            while number < self.state.pairs:
                if self._make_group(number) or {BASELINE, FULL} & failed_for_good(self.runs):
                    return
                number += 1
                self._plan_by_the_first()
        except KeyboardInterrupt:
            self.interrupted = True

    def _make_group(self, number: int) -> bool:
        """Make the missing runs of a group, in drawn order. Return whether that is enough."""
        given_up = failed_for_good(self.runs)
        of_group = [run for run in self.runs if run.round == number]
        left_out = given_up | {run.variant for run in of_group}
        sides = [side for side in self.sides if side.name not in given_up]
        drawn = schedule(self.state.seed, number, sides)
        drawn = [one for one in drawn if one.variant.name not in left_out]
        if self.full_first:
            drawn.sort(key=lambda one: one.variant.name != FULL)
        missing = [
            attrs.evolve(one, position=len(of_group) + place) for place, one in enumerate(drawn)
        ]
        together = self.in_turns and len(missing) > 1
        for some in [missing] if together else [[one] for one in missing]:
            self._make(some)
            if self.enough(self.runs):
                return True
        return False

    def _plan_by_the_first(self) -> None:
        """Make fewer pairs where the first group has shown that a script has several fits."""
        seconds = self.group_seconds
        if seconds is not None and {run.round for run in self.runs} == {0}:
            pairs = pairs_of_fits(self.request, self.prepared, self.state, self.runs, seconds)
            if pairs != self.state.pairs:
                self._decide(pairs=pairs)

    def _make(self, scheduled: Sequence[ScheduledRun]) -> None:
        """Make runs and keep them; several take turns.

        :raises TfoptError: if code was edited before their end.
        """
        first = len(self.runs)
        self.code.check(first)
        before, own = read_counters(), process_time()
        makes = [partial(self._run, one, first + place) for place, one in enumerate(scheduled)]
        if len(makes) == 1:
            runs = [makes[0](None)]
        else:
            runs = self._turns_of(makes, random.Random(f"{self.state.seed} turns {first}"))
        self.code.check(first)
        own = process_time() - own  # this process draws the display and summarizes the runs
        computed = [run.cpu_seconds for run in runs]
        ours = None if None in computed else math.fsum((own, *filter(None, computed)))
        seen = disturbance(before, read_counters(), ours)
        for place, run in enumerate(runs):
            self._keep(attrs.evolve(run, disturbance=seen), first + place)

    def _turns_of(
        self, makes: Sequence[Callable[[Tell | None], RunResult]], source: random.Random
    ) -> list[RunResult]:
        """Make runs in turns. Where one waits for another, or fails beside it, make each alone, and
        all that follow."""
        try:
            with called_off(self.runner) as end:
                evenly = self.state.warm_seconds is not None
                runs = TurnsOfProcesses(makes, source, end, evenly=evenly).carry_out()
        except CannotTakeTurns:
            self._take_no_turns(WAITS)
            return [make(None) for make in makes]
        failed = [run for run in runs if not run.ok and TOO_LONG not in (run.error or "")]
        if not failed:
            return runs
        # less memory is free beside another one: a failure counts where it is alone
        alone = [
            make(None) if run in failed else run for run, make in zip(runs, makes, strict=True)
        ]
        if not all(run.ok for run in alone):
            return alone
        cause = first_line(failed[0].error or "")
        self._take_no_turns(f'"{failed[0].variant}" failed beside another run ({cause})')
        # the sides of a pair are made alike
        return [
            run if before in failed else make(None)
            for before, run, make in zip(runs, alone, makes, strict=True)
        ]

    def _take_no_turns(self, why: str) -> None:
        number = self.runs[-1].round + 2 if self.runs else 1
        note = ALONE.format(why=why, pair=number)
        self._decide(one_after_other=note)
        self.observer(progress.Noted(note))

    def _decide(self, **changes: Any) -> None:
        """Change the state, and keep it for a resume."""
        self.state = attrs.evolve(self.state, **changes)
        if self.store is not None:
            self.store.update_request(self.request.folder.name, course=unstructure(self.state))

    def _run(self, scheduled: ScheduledRun, index: int, turn_over: Tell | None) -> RunResult:
        """Make a run, in a process of its own, and return it. It is not stored.

        :param turn_over: called at the ends of its turns, and returns when its next one comes; None
            where it takes no turns.
        """
        prepared, stopped, metrics = self.prepared, 0.0, dict[str, float]()
        started = progress.RunStarted(
            index=index, total_runs=self.total_runs, variant=scheduled.variant.name
        )
        self.observer(started)

        def tell(message: Message) -> None:
            nonlocal stopped
            if isinstance(message, TurnOver) and turn_over is not None:
                since = time.monotonic()
                turn_over(message)
                stopped += time.monotonic() - since
            if not isinstance(message, EpochDone | StepDone):
                return
            step = prepared.steps_per_epoch or 0
            if isinstance(message, StepDone):
                step = message.step
            else:
                metrics.update(message.metrics)
            self.observer(
                progress.RunProgress(
                    run=started, epoch=message.epoch, epochs=prepared.epochs, step=step,
                    steps_per_epoch=prepared.steps_per_epoch, metrics=dict(metrics),
                    ended=isinstance(message, EpochDone),
                )
            )  # fmt: skip

        earlier = [run for run in self.runs if run.round < scheduled.round]
        run = self._processes.run(
            scheduled, f"{self.request.folder.name}-{index:02d}", tell,
            save=self.request.save_to is not None and scheduled.variant.name == FULL,
            warm_seconds=self.state.warm_seconds, in_turns=turn_over is not None,
            fit_seconds=seconds_of_fits(earlier, self.state.warm_seconds),
        )  # fmt: skip
        taken = run.process_seconds
        return attrs.evolve(run, process_seconds=None if taken is None else taken - stopped)

    def _keep(self, run: RunResult, index: int) -> None:
        """Store a run, and report that it has ended."""
        with HoldInterrupt():
            if self.store is not None:
                self.store.add_run(self.request.folder.name, run)
            self.runs.append(run)
        seconds, left = self.group_seconds, self.total_runs - len(self.runs)
        self.observer(
            progress.RunEnded(
                index=index, total_runs=self.total_runs, run=run,
                speedup_so_far=speedup_so_far(self.runs, self.judgement),
                seconds_left=None if seconds is None else seconds * left / len(self.sides),
            )
        )  # fmt: skip


# A variant that failed this often and never ended well is not tried again.
MAX_FAILURES = 2


def failed_for_good(runs: Sequence[RunResult]) -> set[str]:
    """Return the variants that failed twice and never ended well."""
    return {
        name
        for name in {run.variant for run in runs}
        if all(run.status == "failed" for run in runs if run.variant == name)
        and sum(run.variant == name for run in runs) >= MAX_FAILURES
    }


def speedup_so_far(runs: Sequence[RunResult], judgement: Judgement) -> float | None:
    """Return the mean speedup over complete pairs, None before the first."""
    pairs = pairs_of(runs)
    figures = compared_seconds(pairs, judgement.kind) if pairs else ""
    if isinstance(figures, str):
        return None
    ratios = log_ratios(*figures)
    return math.exp(math.fsum(ratios) / len(ratios))
