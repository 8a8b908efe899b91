"""The search of settings of one `tfopt tune`: what is searched, by which metric, and its proof."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tfopt_core.errors import InputError, RecipeError
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.recipe import TuneSpec
from tfopt_core.recipe.model import (
    DEFAULT_PRUNER,
    DEFAULT_SAMPLER,
    DEFAULT_TRIALS,
    TuneObjective,
)
from tfopt_core.recipe.paths import join_path, split_path
from tfopt_core.recipe.ranges import Between
from tfopt_core.records.dry_build import Prepared
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.request import Request
from tfopt_core.tuning.deadline import ProcessDeadline
from tfopt_core.tuning.progress import SearchObserver, SearchPhase
from tfopt_core.tuning.proof import LEAST_PROOF_SHARE, with_settings_proof
from tfopt_core.tuning.results import SettingsProof, SettingsSearch, TuneResult
from tfopt_core.tuning.search_log import SearchLog, place_of
from tfopt_core.tuning.settings_proof import pairs_within, prove
from tfopt_core.tuning.settings_runs import SearchGoal, SettingsRunner
from tfopt_core.tuning.settings_search import ValueSearch
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.storage import StudyStorage, open_storage
from tfopt_core.tuning.study import Study, study_facts, study_name
from tfopt_core.tuning.tunables import Tunable, tunables, with_options, with_values
from tfopt_core.workers.spawn import Runner

NOTHING = (
    "no settings were searched: no plugin of the stack declares a range for a setting that the "
    "recipe leaves open, and [tune.options] names no option"
)
NO_VALIDATION = (
    'quality is read on validation data, and "{metric}" is a metric of the training data; give the '
    'workload validation data, or name a metric: quality = {{ metric = "val_accuracy" }} in '
    "[measure]"
)

INTERRUPTED = "interrupted; --resume goes on with the search"
STUDIES_FILE = "studies.sqlite"
NOTHING_BETTER = "no value that was tried is better than the present ones"
NOT_CONFIRMED = "the fresh pairs do not confirm {values}, so the untuned values stay"


@attrs.define(kw_only=True, eq=False)
class SettingsSession:
    """Searches the settings of a stack and the options of its workload, and proves the best.

    :param request: the request of the recipe without plugins.
    :param stack: the stack as it stands untuned.
    :param own: the settings of the plugins that the recipe names, which are not searched.
    :param elapsed: returns the seconds that the whole search has taken.
    :param storage: where machines share the search; None for a file of this project.
    :param fresh: whether to begin without the trials of earlier searches.
    """

    request: Request
    objective: TuneObjective
    stack: Stack
    own: Mapping[str, Mapping[str, Any]]
    installed: tuple[PluginInfo, ...]
    runner: Runner
    deadline: ProcessDeadline
    log: SearchLog
    elapsed: Callable[[], float]
    budget: float
    seed: int
    observer: SearchObserver
    now: Callable[[], float] = time.monotonic
    storage: StudyStorage | None = None
    fresh: bool = False
    space: tuple[Tunable, ...] = attrs.field(init=False)
    interrupted: bool = False
    why_ended: str = ""
    _goal: SearchGoal = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        recipe = self.request.recipe
        self.space = tunables(recipe, self.stack, self.installed, self.own)
        self._goal = SearchGoal(objective=self.objective, metric="", sign=1.0)

    def search(self) -> SettingsSearch:
        """Search, and return what was found. Where Ctrl-C ended it, `interrupted` is True.

        :raises InputError: if there is nothing to search by quality, or an option is unknown.
        :raises TfoptError: if the untuned training fails.
        """
        spec = self.request.recipe.tune or TuneSpec()
        found = SettingsSearch(
            sampler=spec.sampler or DEFAULT_SAMPLER,
            pruner=spec.pruner or DEFAULT_PRUNER,
            planned=spec.trials or DEFAULT_TRIALS,
        )
        begun = self.elapsed()
        found = attrs.evolve(
            found,
            ranges={one.key: one.written for one in self.space},
            untuned={one.key: one.untuned for one in self.space if one.untuned is not None},
        )  # fmt: skip
        if not self.space:
            if self.objective == "quality":
                problem = self.request.reading.problem(
                    "tune.objective", NOTHING, "add [tune.options]"
                )
                raise RecipeError([problem])
            return attrs.evolve(found, statement=NOTHING)
        self.observer(SearchPhase(_in_words(self.space)))
        try:
            self._know_the_metric()
            study = self._study(found)
        except KeyboardInterrupt:
            self.interrupted, self.why_ended = True, INTERRUPTED
            return found
        values = ValueSearch(
            runner=self._trainings(aside=self._goal.trains_whole), study=study,
            log=self.log, elapsed=self.elapsed, budget=self.budget, seed=self.seed,
            observer=self.observer,
        )  # fmt: skip
        values.go()
        self.interrupted, self.why_ended = values.interrupted, values.why_ended
        best = values.best
        nothing = NOTHING_BETTER
        if not any(one.values for one in values.trials):
            nothing = f"no value was tried: {values.why_ended}"
        return attrs.evolve(
            found, metric=self._goal.metric, trials=tuple(values.trials), best=best,
            earned=tuple(values.earned), seconds=self.elapsed() - begun, shared=study.shared(),
            statement="" if best else nothing,
        )  # fmt: skip

    def searched(self, result: TuneResult) -> TuneResult:
        """Return the result of the search of stacks with the best settings in it.

        :raises: what `search` raises.
        """
        found = self.search()
        return attrs.evolve(
            result, settings=found, stack=with_values(self.stack, found.best, self.space),
            search_seconds=self.elapsed(), begun_from=tuple(self.log.begun_from),
            interrupted=self.interrupted, why_ended=self.why_ended or result.why_ended,
        )  # fmt: skip

    def proved(self, result: TuneResult) -> TuneResult:
        """Prove changed options, and what a search by quality has found, by fresh pairs of whole
        trainings.

        Where the fresh pairs do not confirm them, the values are as before.
        """
        found = result.settings
        assert found is not None
        by_quality = self.objective == "quality"
        if result.interrupted:
            return result
        if by_quality and not found.best:
            return attrs.evolve(result, statement=f"nothing helps here: {found.statement}")
        if not by_quality and not found.options:
            return result
        left = self.budget - self.elapsed()
        proof = self.prove(found, max(left, LEAST_PROOF_SHARE * self.budget))
        result = with_settings_proof(result, proof)
        if proof.confirmed or proof.interrupted or by_quality:
            return result
        values = ", ".join(
            f"{split_path(key)[-1]} = {json.dumps(value)}" for key, value in found.best.items()
        )
        statement = NOT_CONFIRMED.format(values=values)
        reverted = attrs.evolve(found, proof=proof, best={}, statement=statement)
        return attrs.evolve(result, stack=self.stack, settings=reverted)

    def prove(self, found: SettingsSearch, seconds: float) -> SettingsProof:
        """Make fresh pairs of the recipe as it is against the best values with their stack.

        :param seconds: what the pairs may take; four are made in any case.
        """
        runner = self._trainings(aside=False, limited=False)
        # the seconds of another machine say nothing of this one
        known = [one.run_seconds for one in found.trials if one.run_seconds and not one.machine]
        a_run = sum(known) / len(known) if known else seconds
        pairs = pairs_within(seconds, 2 * a_run)
        what = f"fresh pairs of the best values: {pairs} of whole trainings"
        self.observer(SearchPhase(what, seconds_left=2 * pairs * a_run))
        baseline = self.stack if self.objective == "quality" else ()
        return prove(
            runner, found.best, baseline=baseline, pairs=pairs,
            seed=random.SystemRandom().randrange(1, 2**31),
            on_pair=lambda pair: self.observer(
                SearchPhase(
                    f"{what}, {pair} done", minor=True, seconds_left=2 * (pairs - pair) * a_run
                )
            ),
        )  # fmt: skip

    def _study(self, found: SettingsSearch) -> Study:
        """Return the study of the search: that of all machines in a storage, else this project's.

        :raises StoreError: if it cannot be opened.
        """
        facts, stack, untuned = self.log.own.facts, self.stack, dict(found.untuned)
        if self.storage is not None:
            # stacks may differ: each trial compares with the same stack on the same machine
            names = {one.plugin for one in self.space} | set(self.own)
            facts = study_facts(facts, str(self.request.recipe.directory.resolve()), names)
            stack, untuned = (), {}
        place = place_of(stack, self._goal.metric, self._goal.sign, untuned)
        local = f"sqlite:///{self.log.path.with_name(STUDIES_FILE)}"
        return Study(
            self.space, sampler=found.sampler, pruner=found.pruner, planned=found.planned,
            seed=self.seed, sign=self._goal.sign, search=self.log.own.id,
            storage=self.storage or open_storage(local), shared=self.storage is not None,
            fresh=self.fresh, name=study_name(facts, place, found.ranges),
        )  # fmt: skip

    def _trainings(self, *, aside: bool, limited: bool = True) -> SettingsRunner:
        request = self.request
        if not limited:
            request = attrs.evolve(request, folder=request.folder / "proof")
        return SettingsRunner(
            request=request, runner=self.runner, goal=self._goal, deadline=self.deadline,
            stack=self.stack, space=self.space, aside=aside, limited=limited, now=self.now,
        )  # fmt: skip

    # What is searched, and by which metric

    def _know_the_metric(self) -> None:
        """Make dry builds of the user's own training: its options exist, its metric is reported."""
        if not self._goal.trains_whole:
            return
        prepared = self._dry_build()
        if self.objective == "quality":
            metric = prepared.quality_metric
            if not metric.startswith("val_"):
                raise InputError(NO_VALIDATION.format(metric=metric))
            sign = 1.0 if prepared.quality_direction == "max" else -1.0
        else:
            target = self.request.recipe.measure.target
            assert target is not None
            metric, sign = target.metric, 1.0 if target.at_least is not None else -1.0
        self._goal = attrs.evolve(self._goal, metric=metric, sign=sign)

    def _dry_build(self) -> Prepared:
        """Return a dry build with one value of each option, or without, if that value fails."""
        try:
            return self._prepared({one.key: _first(one) for one in self.space if not one.plugin})
        except RecipeError as error:
            paths = {join_path("workload.options", (one.name,)): one.name
                     for one in self.space if not one.plugin}  # fmt: skip
            for found in error.problems:
                if found.path in paths:
                    path = join_path("tune.options", (paths[found.path],))
                    problem = self.request.reading.problem(path, found.message)
                    raise RecipeError([problem]) from None
        except InputError:
            pass  # one value may be refused: its trials say so
        return self._prepared({})

    def _prepared(self, values: Mapping[str, Any]) -> Prepared:
        request = attrs.evolve(
            self.request, recipe=with_options(self.request.recipe, values, self.space),
            plugins=stacked(self.stack), folder=self.request.folder / "settings",
        )  # fmt: skip
        self.deadline.lift()
        return prepare(request, self.runner)[0]


def _first(one: Tunable) -> Any:
    return one.range.low if isinstance(one.range, Between) else one.range.values[0]


def _in_words(space: tuple[Tunable, ...]) -> str:
    return f"searching {', '.join(one.key for one in space)}"
