"""Run the rounds of a measurement: choose the next run, and decide when to stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import attrs

from tfopt_core.measurement import progress
from tfopt_core.measurement.conclude import Stop, judgement_of
from tfopt_core.measurement.edits import CodeAtStart
from tfopt_core.measurement.pace import (
    SHORTEST_SECONDS,
    SURELY_TOO_LONG,
    Pace,
    World,
    round_seconds,
    warm_seconds,
)
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.schedule import Schedule, baseline_and_full, leave_one_out, one_alone
from tfopt_core.measurement.state import MeasurementState
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import EpochDone, Progress, StepDone, Tell
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import FULL, Contrast, Turn, Variant
from tfopt_core.statistics.disturbance import disturbance, disturbed_in_words
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import pairs_of
from tfopt_core.statistics.timing.cutting import longest_seconds
from tfopt_core.statistics.verdicts.stopping import (
    failed_for_good,
    is_complete,
    no_pair_possible,
    settled,
    speedup_so_far,
    worth_repeating,
)
from tfopt_core.statistics.verdicts.verdict import compare
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.store.database import Store
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

# Why the second contrast is measured no further.
NO_TIME = "the budget holds no more runs of it beside those of the verdict"
TOO_LITTLE_TIME = "what the verdict leaves of the budget does not hold four rounds of it"


@attrs.define(kw_only=True, eq=False)
class Rounds:
    """The rounds of one measurement, run after run.

    `runs` may hold runs of an earlier process, which are not repeated. After `go`, `stop` says
    why there are no more runs.
    """

    request: Request
    prepared: Prepared
    state: MeasurementState
    pace: Pace
    runner: Runner
    store: Store
    observer: Observer
    world: World
    keep_state: Callable[[MeasurementState], None] = lambda state: None
    code: CodeAtStart = attrs.field(factory=lambda: CodeAtStart({}))
    runs: list[RunResult] = attrs.field(factory=list)
    extras: list[Variant] = attrs.field(factory=list)
    contrasts: list[Contrast] = attrs.field(factory=list)
    stop: Stop = "done"
    _longest: float | None = attrs.field(default=None, init=False)
    planned_pairs: int = attrs.field(init=False)
    _schedule: Schedule = attrs.field(init=False)
    _processes: Processes = attrs.field(init=False)

    @planned_pairs.default
    def _first_pairs(self) -> int:
        # the fixed number, or that of the first look
        pairs = self.request.recipe.measure.pairs
        return LOOKS[0] if pairs == "auto" else pairs

    @_schedule.default
    def _draw_schedule(self) -> Schedule:
        return Schedule(self.state.seed)

    @_processes.default
    def _make_processes(self) -> Processes:
        # once for all runs: whether their processes start alike is asked of the plugins
        return Processes(self.request, self.runner)

    def __attrs_post_init__(self) -> None:
        attribution = self.request.recipe.measure.attribution
        if self.state.isolating is None and attribution != "auto":
            self._decide(isolating=attribution != "off")
        if self.state.isolating:
            self._isolate_each()

    def go(self) -> None:
        """Run rounds until the verdict is settled, the pairs are done or the budget is spent.
        Rounds also end with Ctrl-C, and once there can be no pair."""
        try:
            self._rounds()
        except KeyboardInterrupt:
            self.stop = "interrupted"

    def judgement(self) -> Judgement:
        """Return the rules by which the runs so far are judged."""
        return judgement_of(self.request, self.prepared, self.state, self.runs)

    def seconds_a_round(self, round_: int = 0) -> float | None:
        """Return the seconds of a round like this one, None before the first run."""
        return round_seconds(self._alike(), self._variants(round_)) if self._alike() else None

    def _alike(self) -> list[RunResult]:
        """Return the runs of the same length as the next one."""
        return [run for run in self.runs if run.round >= self.state.same_length_from]

    def variants_a_round(self, round_: int) -> int:
        """Return how many runs a round has."""
        return len(self._variants(round_))

    # Rounds

    def _rounds(self) -> None:
        round_ = 0
        while round_ < self.planned_pairs:
            if (
                round_
                and self._is_missing(round_)
                and not self._holds(partial(self._affordable, round_))
            ):
                self.stop = "budget"
                return
            self._round(round_)
            if round_ == 0 and all(run.round == 0 for run in self.runs):
                self._decide_after_the_first()
            if no_pair_possible(self.runs):
                return
            round_ += 1
            if self._sequential and round_ == self.planned_pairs:
                if self._settled(round_):
                    self._second_contrast(round_)
                    return
                next_look = next(look for look in LOOKS if look > round_)
                if not self._holds(partial(self._within_reach, round_, next_look)):
                    self.stop = "budget"
                    return
                self.planned_pairs = next_look
                budget = seconds_in_words(self.request.recipe.measure.budget_seconds)
                self._tell_first_verdict(
                    round_, f"more follow, up to {next_look} within the budget of {budget}"
                )

    def _settled(self, rounds: int) -> bool:
        """Return whether more pairs than these could not change the verdict. It stays settled
        while rounds of the second contrast follow, over a resume too."""
        return self.state.settled_after == rounds or settled(self.runs, self.judgement(), rounds)

    def _second_contrast(self, rounds: int) -> None:
        """Make the rounds of the second contrast for which the verdict did not wait. Their runs
        change nothing of it.

        :param rounds: those that the verdict rests on.
        """
        added = self.state.added
        if added is None or not self._added(rounds) or rounds >= added.first_round + LOOKS[0]:
            return
        self._decide(settled_after=rounds)
        last = added.first_round + LOOKS[0]
        if not self._within_reach(rounds, last):
            self._end_added(TOO_LITTLE_TIME)
            return
        names = " and ".join(added.additions)
        self._tell_first_verdict(
            rounds, f"it is final, and runs of {names} on top of the stack follow"
        )
        self.planned_pairs = last
        for round_ in range(rounds, last):
            if self.pace.spent and self._is_missing(round_):
                self._end_added(TOO_LITTLE_TIME)
                return
            self._round(round_)
            if added.variant in failed_for_good(self.runs):
                return

    def _tell_first_verdict(self, rounds: int, follows: str) -> None:
        """Report what the pairs of the first look say, since more runs follow.

        :param follows: which ones, in words.
        """
        if self.pace.first_verdict is None or rounds != LOOKS[0]:
            return
        comparison = compare(self.runs, self.judgement(), self.seconds_a_round())
        self.observer(
            progress.Noted(
                f"first verdict, after {rounds} pairs: {comparison.statement}; {follows}"
            )
        )

    def _is_missing(self, round_: int) -> bool:
        return not is_complete(self.runs, round_)

    def _round(self, round_: int) -> None:
        """Run each variant once, and all of them again if the machine was disturbed."""
        self._missing_turns(round_)
        if worth_repeating(self.runs, round_) and self._may_repeat(round_):
            self._set_aside(round_)
            self._missing_turns(round_)

    def _may_repeat(self, round_: int) -> bool:
        """Return whether a round fits once more, with those that follow up to the first verdict,
        and no verdict that was told as final rests on it."""
        if round_ < (self.state.settled_after or 0):
            return False
        a_round = self.seconds_a_round(round_) or 0.0
        if round_ >= LOOKS[0]:
            return self.pace.fits(a_round)
        return self.pace.fits(a_round) and self.pace.fits_first((LOOKS[0] - round_) * a_round)

    def _missing_turns(self, round_: int) -> None:
        """Make the missing runs of a round, in the order of the schedule."""
        # all runs of a round are cut by one rule; a resumed one may begin within a round
        if self._longest is None or not any(run.round == round_ for run in self.runs):
            self._longest = self._longest_seconds(round_)
        given_up = failed_for_good(self.runs)
        variants = [v for v in self._variants(round_) if v.name not in given_up]
        for turn in self._schedule.turns(round_, variants):
            of_round = [run for run in self.runs if run.round == round_]
            if not any(
                run.variant == turn.variant.name and run.status != "repeated" for run in of_round
            ):
                self._run(attrs.evolve(turn, position=len(of_round)))

    def _run(self, turn: Turn) -> None:
        index, measurement = len(self.runs), self.request.folder.name
        self.code.check(index)
        self.observer(
            progress.RunStarted(
                index=index, total_runs=self._total_runs(), variant=turn.variant.name,
                round=turn.round, pairs=self.planned_pairs,
            )
        )  # fmt: skip
        before, own = self.world.counters(), process_time()
        run = self._processes.run(
            turn, f"{measurement}-{index:02d}", self._teller(),
            save=self.request.save_to is not None and turn.variant.name == FULL,
            longest_seconds=self._longest,
        )  # fmt: skip
        self.code.check(len(self.runs))
        own = process_time() - own  # this process draws the display and summarizes the run
        ours = None if run.cpu_seconds is None else run.cpu_seconds + own
        seen = disturbance(before, self.world.counters(), ours)
        run = attrs.evolve(run, disturbance=seen)
        self.store.add_run(measurement, run)
        self.runs.append(run)
        self.observer(
            progress.RunEnded(
                index=index, total_runs=self._total_runs(), run=run,
                speedup_so_far=speedup_so_far(self.runs, self.judgement()),
                seconds_left=self._seconds_left(),
            )
        )  # fmt: skip

    def run_to_the_end(self, turn: Turn, run_id: str, planned: int) -> RunResult:
        """Make one whole run that belongs to no round: it is neither stored nor judged here.

        :param planned: how many such runs there are.
        """
        self.observer(
            progress.RunStarted(
                index=turn.position, total_runs=planned, variant=turn.variant.name,
                round=turn.round, pairs=1,
            )
        )  # fmt: skip
        self.code.check(len(self.runs))
        run = self._processes.run(turn, run_id, self._teller())
        self.code.check(len(self.runs))
        return run

    def _longest_seconds(self, round_: int) -> float | None:
        """Return the seconds of timed steps after which the runs of a round are cut, None to train
        to the end."""
        if self.state.length != "steady":
            return None
        longest = longest_seconds(self.request.recipe.measure.budget_seconds)
        if self.state.settled_after is not None:
            # no longer than the runs of the verdict, for which that was enough
            known = [warm_seconds(run) for run in self._alike() if run.ok]
            return min(longest, max([SHORTEST_SECONDS, *known]))
        missing = max(0, LOOKS[0] - round_) * self.variants_a_round(round_)
        return self.pace.longest_run(self._alike(), missing, longest)

    def _teller(self) -> Tell:
        """Return a function that turns a process' messages into events."""
        metrics: dict[str, float] = {}

        def tell(message: Progress) -> None:
            if isinstance(message, EpochDone):
                metrics.update(message.metrics)
                step = self.prepared.steps_per_epoch or 0
            elif isinstance(message, StepDone):
                step = message.step
            else:
                return
            self.observer(
                progress.RunProgress(
                    epoch=message.epoch,
                    epochs=self.prepared.epochs,
                    step=step,
                    steps_per_epoch=self.prepared.steps_per_epoch,
                    metrics=dict(metrics),
                )
            )

        return tell

    def _set_aside(self, round_: int) -> None:
        """Mark the runs of a disturbed round as repeated: they are kept, but do not count."""
        of_round = [run for run in self.runs if run.round == round_ and run.ok]
        self.observer(
            progress.Noted(f"round {round_ + 1} is repeated: {disturbed_in_words(of_round)}")
        )
        aside = {run.id: attrs.evolve(run, status="repeated") for run in of_round}
        self.store.replace_runs(list(aside.values()))
        self.runs = [aside.get(run.id, run) for run in self.runs]

    # How many

    @property
    def _sequential(self) -> bool:
        return self.request.recipe.measure.pairs == "auto"

    def _variants(self, round_: int) -> list[Variant]:
        """Return the variants of a round."""
        settled_after = self.state.settled_after
        isolates = settled_after is None or round_ < settled_after
        extras = self.extras if isolates else []
        return [*baseline_and_full(self.request.plugins), *self._added(round_), *extras]

    def _added(self, round_: int) -> list[Variant]:
        """Return the variant of the second contrast, if a round has a run of it."""
        added = self.state.added
        if added is None or added.why_ended or round_ < added.first_round:
            return []
        return [Variant(added.variant, self.request.added)]

    def _end_added(self, why: str) -> bool:
        """Measure the second contrast no further; return whether that saves anything."""
        added = self.state.added
        if added is None or added.why_ended:
            return False
        self._decide(added=attrs.evolve(added, why_ended=why))
        names = " and ".join(added.additions)
        self.observer(progress.Noted(f"{names} on top of the stack: {why}"))
        return True

    def _total_runs(self) -> int:
        repeated = sum(run.status == "repeated" for run in self.runs)
        planned = sum(self.variants_a_round(round_) for round_ in range(self.planned_pairs))
        return max(len(self.runs), planned + repeated)

    def _affordable(self, rounds: int) -> bool:
        """Return whether another round may begin. The budget may be overrun by one round at most,
        and before the first look only if that look can be reached."""
        if self.pace.spent:
            return False
        missing, a_round = LOOKS[0] - rounds, self.seconds_a_round(rounds)
        if not self._sequential or missing <= 0 or a_round is None:
            return True
        return self.pace.fits(missing * a_round, slack=SURELY_TOO_LONG)

    def _holds(self, fits: Callable[[], bool]) -> bool:
        """Return whether rounds fit the budget, ending the second contrast if that helps."""
        return fits() or (self._end_added(NO_TIME) and fits())

    def _within_reach(self, rounds: int, look: int) -> bool:
        """Return whether the budget holds the rounds that are missing until a look."""
        # a resumed measurement may have some of these rounds already
        missing = sum(self._is_missing(round_) for round_ in range(rounds, look))
        return self.pace.fits(missing * (self.seconds_a_round(rounds) or 0.0))

    # Decisions after the first round

    def _decide_after_the_first(self) -> None:
        measure = self.request.recipe.measure
        if measure.length == "auto" and self.state.length == "full" and self._too_long():
            self._decide(length="steady", same_length_from=1)
            wanted = self.pace.first_verdict is not None
            time = "the time until a first verdict" if wanted else "the budget"
            self.observer(
                progress.Noted(
                    f"four pairs of full trainings do not fit {time}: from now on runs stop once "
                    "their step time is known, and totals are projected"
                )
            )
        if self.state.isolating is None:
            self._decide(isolating=self._worth_isolating())
            if self.state.isolating:
                self._isolate_each()
                self._missing_turns(0)

    def _too_long(self) -> bool:
        if not self.prepared.can_be_cut_short or not pairs_of(self.runs):
            return False
        rest = (LOOKS[0] - 1) * round_seconds(self.runs, self._variants(0))
        if not self.pace.fits(rest):
            return True
        longest = max(run.wall_seconds or 0.0 for run in self.runs)
        return not self.pace.fits_first(rest) and self.pace.worth_cutting(longest)

    def _worth_isolating(self) -> bool:
        """Return whether leaving out each plugin in turn fits the budget, by the first pair."""
        if len(self.request.plugins) < 2 or not pairs_of(self.runs):
            return False
        variants = [*self._variants(0), *leave_one_out(self.request.plugins)[0]]
        rest = self.planned_pairs * round_seconds(self.runs, variants)
        rest -= round_seconds(self.runs, self._variants(0))
        budget = self.request.recipe.measure.budget_seconds
        return self.pace.elapsed + rest <= budget and self.pace.fits_first(rest)

    def _decide(self, **decided: Any) -> None:
        self.state = attrs.evolve(self.state, **decided)
        self.keep_state(self.state)

    def _isolate_each(self) -> None:
        self.extras, self.contrasts = isolating(self.request)

    def _seconds_left(self) -> float | None:
        round_, alike = self.runs[-1].round, self._alike()
        of_round = [run for run in self.runs if run.round == round_]
        done = {run.variant for run in of_round if run.status != "repeated"}
        missing = [variant for variant in self._variants(round_) if variant.name not in done]
        for later in range(round_ + 1, self.planned_pairs):
            missing += self._variants(later)
        return round_seconds(alike, missing) if alike else None


def isolating(request: Request) -> tuple[list[Variant], list[Contrast]]:
    """Return the variants and contrasts that isolate each plugin."""
    methods = [leave_one_out]
    if request.recipe.measure.attribution == "full":
        methods.append(one_alone)
    variants, contrasts = [], []
    for method in methods:
        more_variants, more_contrasts = method(request.plugins)
        variants += more_variants
        contrasts += more_contrasts
    return variants, contrasts
