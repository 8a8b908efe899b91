"""A whole measurement: prepare, rounds, looks, verdict. Each run is stored before the next."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError, did_you_mean
from tfopt_core.hooks import Machine
from tfopt_core.hooks.card import math_of
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measure import progress
from tfopt_core.measure.advice import next_steps
from tfopt_core.measure.attribute import attribute, unattributed
from tfopt_core.measure.isolate import Runner
from tfopt_core.measure.judgement import Judgement, stack_math
from tfopt_core.measure.pairs import pairs_of, wall_seconds
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.processes import Processes, replace_file, run_folder
from tfopt_core.measure.progress import Observer
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
from tfopt_core.recipe import Recipe
from tfopt_core.store.database import Store
from tfopt_core.store.results import Comparison, Results, RunResult
from tfopt_core.training.runtime import recorded_environment

# A variant that failed so often and never ended well is not tried again.
HOPELESS = 2


@attrs.frozen(kw_only=True)
class Request:
    """What is measured, and the world in which it is.

    :param folder: where the runs' private folders go.
    :param environment: the environment that the runs' processes start from.
    :param save_to: where the best optimized model goes, None to keep none.
    :param seed: draws order and seeds; None takes a random one. Kept with the results.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    machine: Machine
    folder: Path
    environment: Mapping[str, str]
    save_to: Path | None = None
    seed: int | None = None
    debug: bool = False


def prepare(request: Request, runner: Runner) -> tuple[Prepared, tuple[StackedPlugin, ...]]:
    """Resolve the stack and build it dry; what `tfopt plan` shows and every measurement begins with.

    :raises InputError: also for a metric of quality or a target that the training does not report.
    :raises PreparationFailed: for what would fail in every run.
    """
    processes = _processes(request, runner)
    prepared = processes.prepare(request.plugins, seed=request.seed or 1)
    resolved = tuple(
        StackedPlugin(s.name, type(s.plugin)(**_as_fields(plan.settings)))
        for s, plan in zip(request.plugins, prepared.plugins, strict=True)
    )
    measure = request.recipe.measure
    for path, metric in (
        ("measure.quality.metric", measure.quality and measure.quality.metric),
        ("measure.target.metric", measure.target and measure.target.metric),
    ):
        if metric and metric not in prepared.metrics:
            known = ", ".join(prepared.metrics)
            hint = did_you_mean(metric, prepared.metrics)
            raise InputError(
                f'{path}: the training reports no "{metric}"; {hint + " " if hint else ""}'
                f"it reports: {known}"
            )
    return prepared, resolved


def measure(request: Request, *, runner: Runner, store: Store, observer: Observer) -> Results:
    """Measure baseline against stack and judge.

    Ctrl-C (KeyboardInterrupt) ends the measuring: the run under way is thrown away, and what is
    done is judged and returned, marked as interrupted.

    :raises InputError, PreparationFailed: before any run.
    :raises StoreError: if a run cannot be kept.
    """
    observer(progress.Preparing())
    prepared, plugins = prepare(request, runner)
    session = Session(request=request, prepared=prepared, plugins=plugins, runner=runner,
                      store=store, observer=observer)  # fmt: skip
    return session.run()


def _processes(request: Request, runner: Runner) -> Processes:
    return Processes(
        recipe=request.recipe,
        machine=request.machine,
        folder=request.folder,
        environment=request.environment,
        runner=runner,
        debug=request.debug,
    )


def _as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}


@attrs.define(kw_only=True, eq=False)
class Session:
    """The rounds of one measurement under way."""

    request: Request
    prepared: Prepared
    plugins: tuple[StackedPlugin, ...]
    runner: Runner
    store: Store
    observer: Observer
    now: Callable[[], float] = time.monotonic
    runs: list[RunResult] = attrs.field(factory=list)
    extras: list[tuple[Variant, Contrast]] = attrs.field(factory=list)
    interrupted: bool = False
    _begun: float = 0.0
    _created_at: str = ""
    _id: str = ""
    _schedule: Schedule = attrs.field(factory=lambda: Schedule(0))

    def run(self) -> Results:
        """Run rounds until the verdict is settled, the pairs are done, or nothing can come of it."""
        request, spec = self.request, self.request.recipe.measure
        seed = random.SystemRandom().randrange(2**31) if request.seed is None else request.seed
        self._begun = self.now()
        self._schedule = Schedule(seed)
        self._created_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._id = request.folder.name
        self.store.begin(
            self._id, self._created_at, request.recipe.name, request.recipe.sha256(),
            {"recipe": request.recipe.to_dict(), "seed": seed, "resolved": self.prepared.resolved},
        )  # fmt: skip
        if spec.attribution in ("leave-one-out", "full"):
            self._isolate_each()
        self.observer(
            progress.Ready(
                seconds=self.prepared.seconds,
                resolved=self.prepared.resolved,
                epochs=self.prepared.epochs,
                steps_per_epoch=self.prepared.steps_per_epoch,
                total_runs=self._planned_pairs() * self._variants_a_round(),
                warnings=self.prepared.warnings,
            )
        )
        try:
            self._rounds()
        except KeyboardInterrupt:
            self.interrupted = True
        results = self._results()
        self.store.finish(results)
        return results

    # Rounds

    def _rounds(self) -> None:
        for round_ in range(LOOKS[-1] if self._sequential else self._planned_pairs()):
            self._round(round_)
            if round_ == 0 and self._worth_isolating():
                self._isolate_each()
                self._turns(self._schedule.turns(0, [v for v, _ in self.extras]), offset=2)
            if self._hopeless() or (self._sequential and self._enough(round_ + 1)):
                return

    def _round(self, round_: int) -> None:
        variants = [*baseline_and_full(self.plugins), *(v for v, _ in self.extras)]
        failed_for_good = self._failed_for_good()
        self._turns(
            self._schedule.turns(round_, [v for v in variants if v.name not in failed_for_good])
        )

    def _turns(self, turns: list[Turn], offset: int = 0) -> None:
        processes = _processes(self.request, self.runner)
        for turn in turns:
            turn = attrs.evolve(turn, position=turn.position + offset)
            index = len(self.runs)
            self.observer(
                progress.RunStarted(
                    index=index, total_runs=self._total_runs(), variant=turn.variant.name,
                    round=turn.round, pairs=self._planned_pairs(),
                )
            )  # fmt: skip
            save = self.request.save_to is not None and turn.variant.name == FULL
            run = processes.run(turn, f"{self._id}-{index:02d}", self._teller(), save=save)
            self.store.add_run(self._id, run)
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

    def _planned_pairs(self) -> int:
        """The pairs that are planned for now: the fixed number, or those of the next look."""
        pairs = self.request.recipe.measure.pairs
        if pairs != "auto":
            return pairs
        done = len({run.round for run in self.runs})
        return next((look for look in LOOKS if look > done - 1), LOOKS[-1])

    def _variants_a_round(self) -> int:
        return 2 + len(self.extras)

    def _total_runs(self) -> int:
        return max(len(self.runs) + 1, self._planned_pairs() * self._variants_a_round())

    def _enough(self, rounds: int) -> bool:
        """At a look: settled, or no budget for the rounds until the next one."""
        if rounds not in LOOKS:
            return False
        if rounds == LOOKS[-1] or compare(self.runs, self._judgement()).verdict in SETTLED:
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
        needed = {variant.name for variant in baseline_and_full(self.plugins)}
        return bool(needed & self._failed_for_good())

    def _worth_isolating(self) -> bool:
        """Whether leaving each plugin out in turn fits the budget, judged by the first pair."""
        measure = self.request.recipe.measure
        if measure.attribution != "auto" or len(self.plugins) < 2 or not pairs_of(self.runs):
            return False
        a_run = (self.now() - self._begun) / len(self.runs)
        pairs = self._planned_pairs()
        return pairs * (2 + len(leave_one_out(self.plugins))) * a_run <= measure.budget_seconds

    def _isolate_each(self) -> None:
        self.extras.extend(leave_one_out(self.plugins))
        if self.request.recipe.measure.attribution == "full":
            self.extras.extend(one_alone(self.plugins))

    def _speedup_so_far(self) -> float | None:
        pairs = pairs_of(self.runs)
        if not pairs:
            return None
        import math

        ratios = log_ratios(
            [wall_seconds(p.without) for p in pairs], [wall_seconds(p.with_) for p in pairs]
        )
        return math.exp(math.fsum(ratios) / len(ratios))

    def _seconds_left(self) -> float | None:
        left = self._total_runs() - len(self.runs)
        return left * (self.now() - self._begun) / len(self.runs)

    # Judging

    def _judgement(self) -> Judgement:
        measure = self.request.recipe.measure
        return Judgement(
            metric=self.prepared.quality_metric,
            direction="max" if self.prepared.quality_direction == "max" else "min",
            tolerance=measure.quality.tolerance if measure.quality else None,
            examples=self.prepared.validation_examples,
            math=stack_math([math_of(s.name, s.plugin) for s in self.plugins]),
            target=measure.target,
            sequential=self._sequential,
        )

    def _results(self) -> Results:
        request, judgement = self.request, self._judgement()
        seconds = self.now() - self._begun
        pairs = len(pairs_of(self.runs))
        comparison = compare(self.runs, judgement, seconds / pairs if pairs else None)
        contrasts = [contrast for _, contrast in self.extras]
        rows = attribute(
            self.runs, [s.name for s in self.plugins],
            [c for c in contrasts if c.with_ == FULL], [c for c in contrasts if c.with_ != FULL],
            judgement,
        )  # fmt: skip
        asked = request.recipe.measure.pairs
        workload = request.recipe.workload
        return Results(
            id=self._id,
            created_at=self._created_at,
            recipe=request.recipe.name,
            recipe_sha256=request.recipe.sha256(),
            resolved=self.prepared.resolved,
            machine=request.machine.to_dict(),
            environment={**self.prepared.versions, **recorded_environment(request.environment)},
            runs=tuple(self.runs),
            comparison=comparison,
            attribution=rows,
            unattributed=unattributed(self.runs, rows, judgement),
            workload=workload.use or workload.factory or "",
            baseline=self.prepared.baseline,
            target=_target_in_words(request.recipe),
            setup_seconds=self.prepared.seconds,
            seconds=seconds,
            interrupted=self.interrupted,
            warnings=self.prepared.warnings,
            next_steps=next_steps(self.runs, comparison, rows, None if asked == "auto" else asked),
            saved_model=self._save_best(judgement, comparison),
        )

    def _save_best(self, judgement: Judgement, comparison: Comparison) -> str | None:
        """Copy the model of the full variant's best run to where it was asked for."""
        target = self.request.save_to
        runs = [run for run in self.runs if run.ok and run.variant == FULL]
        if target is None or not runs:
            return None
        metric, sign = judgement.metric, 1 if judgement.direction == "max" else -1
        best = max(runs, key=lambda run: sign * run.fit.metrics.get(metric, -sign * float("inf")))
        folder = run_folder(self.request.folder, best.round, best.position, best.variant)
        replace_file(folder / "model.keras", target)
        value = best.fit.metrics.get(metric)
        return f"{target} ({metric} {value:.4f}, run {best.id})"


def _target_in_words(recipe: Recipe) -> str | None:
    target = recipe.measure.target
    if target is None:
        return None
    if target.at_least is not None:
        return f"{target.metric} >= {target.at_least:g}"
    return f"{target.metric} <= {target.at_most:g}"
