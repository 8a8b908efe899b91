"""A whole measurement: prepare, rounds, looks, verdict. Each run is stored before the next."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs

from tfopt_core.errors import InputError
from tfopt_core.measure import progress
from tfopt_core.measure.conclude import conclude, judgement_of, save_best
from tfopt_core.measure.figures import compared_seconds
from tfopt_core.measure.isolate import Runner
from tfopt_core.measure.pairs import pairs_of
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.progress import Observer
from tfopt_core.measure.request import Request, prepare, processes_of
from tfopt_core.measure.schedule import (
    FULL,
    Contrast,
    Schedule,
    Turn,
    Variant,
    baseline_and_full,
    leave_one_out,
    one_alone,
)
from tfopt_core.measure.statistics import LOOKS, log_ratios
from tfopt_core.measure.verdict import SETTLED, compare
from tfopt_core.store.database import Store
from tfopt_core.store.results import Results, RunResult

# A variant that failed so often and never ended well is not tried again.
HOPELESS = 2


def measure(request: Request, *, runner: Runner, store: Store, observer: Observer) -> Results:
    """Measure baseline against stack and judge.

    Ctrl-C (KeyboardInterrupt) ends the measuring: the run under way is thrown away, and what is
    done is judged and returned, marked as interrupted.

    :raises InputError, PreparationFailed: before any run.
    :raises StoreError: if a run cannot be kept.
    """
    observer(progress.Preparing())
    prepared, request = prepare(request, runner)
    session = Session(
        request=request, prepared=prepared, runner=runner, store=store, observer=observer
    )
    results = session.run()
    store.finish(results)
    # what was measured is safe before anything else can go wrong
    try:
        saved = save_best(request, prepared, results.runs)
    except InputError as error:
        # the verdict is worth printing all the same
        results = attrs.evolve(results, warnings=(*results.warnings, str(error)))
    else:
        results = attrs.evolve(results, saved_model=saved)
    store.finish(results)
    return results


@attrs.define(kw_only=True, eq=False)
class Session:
    """The rounds of one measurement under way."""

    request: Request
    prepared: Prepared
    runner: Runner
    store: Store
    observer: Observer
    now: Callable[[], float] = time.monotonic
    runs: list[RunResult] = attrs.field(factory=list)
    extras: list[Variant] = attrs.field(factory=list)
    contrasts: list[Contrast] = attrs.field(factory=list)
    interrupted: bool = False
    planned_pairs: int = attrs.field(init=False)
    _begun: float = attrs.field(init=False)
    _schedule: Schedule = attrs.field(init=False)

    @planned_pairs.default
    def _first_pairs(self) -> int:
        # the fixed number, or those of the first look
        return LOOKS[0] if self._sequential else int(self.request.recipe.measure.pairs)

    @_begun.default
    def _begin_now(self) -> float:
        return self.now()

    @_schedule.default
    def _draw_schedule(self) -> Schedule:
        seed = self.request.seed
        return Schedule(random.SystemRandom().randrange(2**31) if seed is None else seed)

    def run(self) -> Results:
        """Run rounds until the verdict is settled, the pairs are done, or it is hopeless."""
        request = self.request
        created_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.store.begin(
            request.folder.name, created_at, request.recipe.name, request.recipe.sha256(),
            {"recipe": request.recipe.to_dict(), "seed": self._schedule.seed,
             "resolved": self.prepared.resolved},
        )  # fmt: skip
        if request.recipe.measure.attribution in ("leave-one-out", "full"):
            self._isolate_each()
        self.observer(
            progress.Ready(
                seconds=self.prepared.seconds,
                resolved=self.prepared.resolved,
                epochs=self.prepared.epochs,
                steps_per_epoch=self.prepared.steps_per_epoch,
                total_runs=self.planned_pairs * self._variants_a_round(),
                warnings=self.prepared.warnings,
            )
        )
        try:
            self._rounds()
        except KeyboardInterrupt:
            self.interrupted = True
        return conclude(
            request=request, prepared=self.prepared, id_=request.folder.name,
            created_at=created_at, runs=self.runs, contrasts=self.contrasts,
            seconds=self.now() - self._begun, interrupted=self.interrupted,
        )  # fmt: skip

    # Rounds

    def _rounds(self) -> None:
        round_ = 0
        while round_ < self.planned_pairs:
            self._round(round_)
            if round_ == 0 and self._worth_isolating():
                self._isolate_each()
                self._turns(self._schedule.turns(0, self.extras), offset=2)
            if self._hopeless():
                return
            round_ += 1
            if self._sequential and round_ == self.planned_pairs and not self._enough(round_):
                self.planned_pairs = next(look for look in LOOKS if look > round_)

    def _round(self, round_: int) -> None:
        variants = [*baseline_and_full(self.request.plugins), *self.extras]
        failed_for_good = self._failed_for_good()
        self._turns(
            self._schedule.turns(round_, [v for v in variants if v.name not in failed_for_good])
        )

    def _turns(self, turns: list[Turn], offset: int = 0) -> None:
        processes = processes_of(self.request, self.runner)
        for turn in turns:
            turn = attrs.evolve(turn, position=turn.position + offset)
            index = len(self.runs)
            self.observer(
                progress.RunStarted(
                    index=index, total_runs=self._total_runs(), variant=turn.variant.name,
                    round=turn.round, pairs=self.planned_pairs,
                )
            )  # fmt: skip
            save = self.request.save_to is not None and turn.variant.name == FULL
            run = processes.run(
                turn, f"{self.request.folder.name}-{index:02d}", self._teller(), save=save
            )
            self.store.add_run(self.request.folder.name, run)
            self.runs.append(run)
            self.observer(
                progress.RunEnded(
                    index=index, total_runs=self._total_runs(), run=run,
                    speedup_so_far=self._speedup_so_far(), seconds_left=self._seconds_left(),
                )
            )  # fmt: skip

    def _teller(self) -> Callable[[dict[str, Any]], None]:
        """What turns a process' messages into events."""
        metrics: dict[str, float] = {}

        def tell(message: dict[str, Any]) -> None:
            if message["type"] == "epoch":
                metrics.update(message["metrics"])
            done = message["type"] == "epoch"
            self.observer(
                progress.RunProgress(
                    epoch=message["epoch"],
                    epochs=self.prepared.epochs,
                    step=self.prepared.steps_per_epoch or 0 if done else message["step"],
                    steps_per_epoch=self.prepared.steps_per_epoch,
                    metrics=dict(metrics),
                )
            )

        return tell

    # How many

    @property
    def _sequential(self) -> bool:
        return self.request.recipe.measure.pairs == "auto"

    def _variants_a_round(self) -> int:
        return 2 + len(self.extras)

    def _total_runs(self) -> int:
        return max(len(self.runs), self.planned_pairs * self._variants_a_round())

    def _enough(self, rounds: int) -> bool:
        """At a look: settled, or no budget for the rounds until the next one."""
        verdict = compare(self.runs, judgement_of(self.request, self.prepared)).verdict
        if rounds == LOOKS[-1] or verdict in SETTLED:
            return True
        until_next = next(look for look in LOOKS if look > rounds) - rounds
        elapsed = self.now() - self._begun
        return elapsed + until_next * elapsed / rounds > self.request.recipe.measure.budget_seconds

    def _failed_for_good(self) -> set[str]:
        names = {run.variant for run in self.runs}
        return {
            name
            for name in names
            if sum(run.variant == name for run in self.runs) >= HOPELESS
            and not any(run.ok for run in self.runs if run.variant == name)
        }

    def _hopeless(self) -> bool:
        needed = {variant.name for variant in baseline_and_full(self.request.plugins)}
        return bool(needed & self._failed_for_good())

    def _worth_isolating(self) -> bool:
        """Whether leaving each plugin out in turn fits the budget, judged by the first pair."""
        measure = self.request.recipe.measure
        if (
            measure.attribution != "auto"
            or len(self.request.plugins) < 2
            or not pairs_of(self.runs)
        ):
            return False
        a_run = (self.now() - self._begun) / len(self.runs)
        pairs = self.planned_pairs
        variants = 2 + len(leave_one_out(self.request.plugins)[0])
        return pairs * variants * a_run <= measure.budget_seconds

    def _isolate_each(self) -> None:
        ways = [leave_one_out]
        if self.request.recipe.measure.attribution == "full":
            ways.append(one_alone)
        for way in ways:
            variants, contrasts = way(self.request.plugins)
            self.extras += variants
            self.contrasts += contrasts

    def _speedup_so_far(self) -> float | None:
        pairs = pairs_of(self.runs)
        if not pairs:
            return None
        figures = compared_seconds(pairs, judgement_of(self.request, self.prepared))
        if isinstance(figures, str):
            return None
        ratios = log_ratios(*figures)
        return math.exp(math.fsum(ratios) / len(ratios))

    def _seconds_left(self) -> float | None:
        left = self._total_runs() - len(self.runs)
        return left * (self.now() - self._begun) / len(self.runs)
