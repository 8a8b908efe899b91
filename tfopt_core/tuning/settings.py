"""Search values of a stack's settings and of the workload's options by Optuna: each trial compares
the training with some values and the untuned one."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import RecipeError, TfoptError
from tfopt_core.measurement.progress import Event, RunProgress
from tfopt_core.recipe.model import DEFAULT_PRUNER, DEFAULT_SAMPLER, DEFAULT_TRIALS
from tfopt_core.recipe.tree import join_path, split_path
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult, pairs_of
from tfopt_core.trials.holdout import with_holdout
from tfopt_core.trials.workload_options import options_in_stack
from tfopt_core.tuning.candidates import (
    Tunable,
    against,
    stacked,
    tunables,
    with_options,
    with_values,
)
from tfopt_core.tuning.results import (
    SettingsSearch,
    SettingsTrial,
    Stack,
    TrialOutcome,
    TuneResult,
    values_below,
)
from tfopt_core.tuning.search import GOES_ON, INTERRUPTED
from tfopt_core.tuning.search_log import digest
from tfopt_core.tuning.storage import open_storage
from tfopt_core.tuning.study import ProposedTrial, Study, study_facts
from tfopt_core.tuning.trials import (
    LEAST_RATIO,
    NoFigure,
    TrialMaker,
    check_ended,
    log_ratio,
    no_figure_of,
)
from tfopt_core.workers.fork import called_off

# The part of the whole budget after which no trial of settings begins; the rest is for the fresh
# pairs.
TRIALS_SHARE = 0.7
NOTHING = (
    "no settings were searched: no plugin of the stack declares a range for a setting that the "
    "recipe leaves open, and [tune.options] names no option"
)
STUDIES_FILE = "studies.sqlite"


@attrs.define(kw_only=True, eq=False)
class ValueSearch:
    """The search of settings of one command.

    :param maker: makes the comparisons.
    :param result: of the search of stacks; its stack is the untuned one.
    """

    maker: TrialMaker
    result: TuneResult
    stack: Stack = attrs.field(init=False)
    space: tuple[Tunable, ...] = attrs.field(init=False)
    found: SettingsSearch = attrs.field(init=False)
    sign: float = 1.0

    def __attrs_post_init__(self) -> None:
        tune, self.stack = self.maker.tune, self.result.stack
        self.space = tunables(tune, self.stack)
        pruner = DEFAULT_PRUNER if tune.objective == "time-to-target" else "none"
        self.found = SettingsSearch(
            sampler=tune.spec.sampler or DEFAULT_SAMPLER, pruner=tune.spec.pruner or pruner,
            planned=tune.spec.trials or DEFAULT_TRIALS, statement=NOTHING,
            ranges={one.key: one.written for one in self.space},
            # but for those that the workload chooses
            untuned={one.key: one.untuned for one in self.space if one.untuned is not None},
        )  # fmt: skip
        target = tune.request.recipe.measure.target
        if tune.objective == "time-to-target" and target is not None:
            self.found.metric = target.metric
            self.sign = 1.0 if target.at_least is not None else -1.0

    def search(self) -> None:
        """Search, and put the best values into the result.

        :raises RecipeError: see `_check_recipe`.
        :raises StoreError: if the storage fails.
        """
        tune, result, found = self.maker.tune, self.result, self.found
        begun, result.settings = tune.elapsed(), found
        if self.space:
            tune.observer(f"searching {', '.join(found.ranges)}")
            try:
                study = self.study()
                self.try_values(study)
                found.shared = study.shared()
            except KeyboardInterrupt:
                result.interrupted, result.why_ended = True, INTERRUPTED
            found.statement = f"no value was tried: {result.why_ended}"
            if found.trials:
                found.statement = "no value that was tried is better than the present ones"
        found.best, found.seconds = self.best_values(), tune.elapsed() - begun
        if found.best:
            found.statement = ""
        result.stack = with_values(self.stack, found.best)

    def revert(self) -> None:
        """Put the untuned values back, since fresh pairs do not confirm the best."""
        best = self.found.best
        values = ", ".join(f"{split_path(key)[-1]} = {json.dumps(best[key])}" for key in best)
        why = f"the fresh pairs do not confirm {values}, so the untuned values stay"
        self.found.best, self.found.statement = {}, why
        self.result.stack = self.stack

    def study(self) -> Study:
        """Return the study of the search: that of all machines in a storage, else this project's.

        :raises StoreError: if it cannot be opened.
        """
        tune, stack, untuned, found = self.maker.tune, self.stack, self.found.untuned, self.found
        facts, storage = tune.log.own.facts, tune.storage
        if storage is not None:
            # stacks may differ: each trial compares with the same stack on the same machine
            names = {one.plugin for one in self.space} | set(tune.own)
            facts = study_facts(facts, str(tune.request.recipe.directory.resolve()), names)
            stack, untuned = (), {}
        # equal names mean trials that compare
        name = digest([facts, stack, found.metric, self.sign, untuned, found.ranges])
        local = f"sqlite:///{tune.log.path.with_name(STUDIES_FILE)}"
        return Study(
            self.space, sampler=found.sampler, pruner=found.pruner, planned=found.planned,
            seed=tune.seed, search=tune.log.own.id, storage=storage or open_storage(local),
            shared=storage is not None, fresh=tune.options.fresh, name=f"tfopt-{name}",
        )  # fmt: skip

    # Trials

    def try_values(self, study: Study) -> None:
        """Make the trials that a study asks for, until all are made, or the budget's part is used
        up; take those that others make. Ctrl-C raises KeyboardInterrupt."""
        tune = self.maker.tune
        study.begin_with({one.key: one.untuned for one in self.space})
        self._take_news(study)
        while study.has_room():
            if tune.elapsed() >= TRIALS_SHARE * tune.budget:
                self.result.why_ended = f"the search's part of the budget was used up; {GOES_ON}"
                return
            tune.observer(f"trial {study.count() + 1} of {study.planned} of settings")
            trial = study.make(self._made)
            if trial is None:
                self.result.why_ended = "the sampler proposes no values that were not tried"
                return
            tune.observer(trial)
            self._take_news(study)

    def _take_news(self, study: Study) -> None:
        """Take the trials that others have ended, which may be those of an earlier search."""
        for trial in study.news():
            if trial.kept_from:
                self.maker.tune.log.begun_from[trial.kept_from] = None
            self.found.trials.append(trial)

    def _made(self, asked: ProposedTrial) -> SettingsTrial:
        tune = self.maker.tune
        begun, trial = tune.now(), _ValuesTrial(self, asked)
        outcome, reason, figure = TrialOutcome.MEASURED, "", None
        try:
            figure = trial.carry_out()
        except (NoFigure, TfoptError) as error:
            self._check_recipe(error)
            ended = no_figure_of(error)
            outcome, reason = ended.outcome, ended.reason
        made = SettingsTrial(
            values=asked.values, outcome=outcome, reason=reason, figure=figure,
            seconds=tune.now() - begun,
        )  # fmt: skip
        tune.log.write("settings", seconds=made.seconds)
        self.found.trials.append(made)
        return made

    def _check_recipe(self, error: Exception) -> None:
        """Check that an error is of a trial's values, and not of the recipe.

        :raises RecipeError: for an option that the workload does not have, which is named at its
            range, and for a metric that the training does not report.
        """
        ranges = {
            join_path("workload.options", (one.name,)): join_path("tune.options", (one.name,))
            for one in self.space
            if not one.plugin
        }
        for problem in error.problems if isinstance(error, RecipeError) else ():
            if problem.path in ranges:
                reading = self.maker.tune.request.reading
                path = ranges[problem.path]
                raise RecipeError([reading.problem(path, problem.message)]) from None
            if problem.path.startswith("measure."):
                raise error

    def best_values(self) -> dict[str, Any]:
        """Return the changed values of the best trial, empty if none beats the untuned training."""
        measured = [
            (one.figure, one.values) for one in self.found.trials
            if one.outcome is TrialOutcome.MEASURED and one.figure is not None
        ]  # fmt: skip
        figure, values = max(measured, key=lambda one: one[0], default=(0.0, {}))
        if figure <= LEAST_RATIO:
            return {}
        return {key: one for key, one in values.items() if self.found.untuned.get(key) != one}


@attrs.define(eq=False)
class _ValuesTrial:
    """A trial of values under way."""

    search: ValueSearch
    asked: ProposedTrial
    pruned_after: int = 0
    figure: float = 0.0

    def carry_out(self) -> float:
        """Return the figure of a pair of runs, the one with the values first.

        :raises NoFigure: if there is none.
        :raises TfoptError: for what a plugin refuses, or the workload.
        """
        search, values = self.search, self.asked.values
        maker = search.maker
        recipe = with_options(maker.tune.request.recipe, values_below(values, "options"))
        if maker.tune.objective == "time-to-target":
            recipe = with_holdout(recipe)
        prepared, request = maker.prepared(
            recipe=recipe, plugins=stacked(with_values(search.stack, values))
        )
        self._check_applied(prepared.not_applied)
        recipe = against(request.recipe, maker.request.recipe)
        request = attrs.evolve(
            request, recipe=recipe, plugins=(*options_in_stack(recipe), *request.plugins)
        )
        seed = random.Random(f"{maker.tune.seed} {digest(values)}").randrange(2**31)
        with called_off(maker.tune.trial_runner) as end:

            def prune(event: Event) -> None:
                if (
                    isinstance(event, RunProgress) and event.ended and event.run.variant == FULL
                    and math.isfinite(metric := event.metrics.get(search.found.metric, math.nan))
                    and not self.pruned_after
                    and self.asked.report(search.sign * metric, event.epoch)
                ):  # fmt: skip
                    self.pruned_after = event.epoch + 1
                    end()

            maker.compare(
                prepared, request, stacked(search.stack), self._is_enough,
                # if the run with the values fails or is pruned, the other one is spared
                seed=seed, full_first=True, observer=prune,
            )  # fmt: skip
        return self.figure

    def _is_enough(self, runs: Sequence[RunResult]) -> bool:
        """Return whether both runs were made.

        :raises NoFigure: if one of them tells nothing.
        """
        by_variant, objective = {run.variant: run for run in runs}, self.search.maker.tune.objective
        with_, without = by_variant[FULL], by_variant.get(BASELINE)
        if self.pruned_after:
            count = "1 epoch" if self.pruned_after == 1 else f"{self.pruned_after} epochs"
            raise NoFigure(TrialOutcome.PRUNED, f"it learned worse than others after {count}")
        check_ended(with_)
        self._check_applied({n: e.detail for n, e in with_.effects.items() if not e.applied})
        if objective == "time-to-target" and with_.fit.seconds_to_target is None:
            raise NoFigure(TrialOutcome.MISSED, "it never reached the target")
        if without is None:
            return False
        check_ended(without, "the untuned training beside it failed: ")
        self.figure = math.exp(log_ratio(objective, pairs_of(runs)[0]))
        return True

    def _check_applied(self, not_applied: Mapping[str, str]) -> None:
        for name in {one.plugin for one in self.search.space} & set(not_applied):
            raise NoFigure(TrialOutcome.NOT_APPLIED, f"{name}: {not_applied[name]}")
