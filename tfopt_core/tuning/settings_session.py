"""The search of settings of one `tfopt tune`: what is searched, by which metric, and its proof."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.errors import InputError, RecipeError
from tfopt_core.recipe import TuneSpec
from tfopt_core.recipe.formats import Between
from tfopt_core.recipe.model import DEFAULT_PRUNER, DEFAULT_SAMPLER, DEFAULT_TRIALS
from tfopt_core.recipe.tree import join_path, split_path
from tfopt_core.records.dry_build import Prepared
from tfopt_core.trials.processes import prepare
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.progress import SearchPhase
from tfopt_core.tuning.results import SettingsSearch, TuneResult
from tfopt_core.tuning.search import INTERRUPTED
from tfopt_core.tuning.search_log import place_of
from tfopt_core.tuning.settings_proof import pairs_within, prove
from tfopt_core.tuning.settings_runs import SettingsRunner
from tfopt_core.tuning.settings_search import ValueSearch
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.storage import open_storage
from tfopt_core.tuning.study import Study, study_facts, study_name
from tfopt_core.tuning.tunables import Tunable, tunables, with_options, with_values
from tfopt_core.tuning.winner import LEAST_PROOF_SHARE, with_proof

NOTHING = (
    "no settings were searched: no plugin of the stack declares a range for a setting that the "
    "recipe leaves open, and [tune.options] names no option"
)
NO_VALIDATION = (
    'quality is read on validation data, and "{metric}" is a metric of the training data; give the '
    'workload validation data, or name a metric: quality = {{ metric = "val_accuracy" }} in '
    "[measure]"
)
STUDIES_FILE = "studies.sqlite"
NOTHING_BETTER = "no value that was tried is better than the present ones"
NOT_CONFIRMED = "the fresh pairs do not confirm {values}, so the untuned values stay"


@attrs.define(kw_only=True, eq=False)
class SettingsSession:
    """Searches the settings of a stack and the options of its workload, and proves the best.

    :param stack: the stack as it stands untuned.
    """

    tune: SearchContext
    stack: Stack
    space: tuple[Tunable, ...] = attrs.field(init=False)
    metric: str = ""
    sign: float = 1.0

    def __attrs_post_init__(self) -> None:
        tune = self.tune
        self.space = tunables(tune.request.recipe, self.stack, tune.installed, tune.own)

    def searched(self, result: TuneResult) -> TuneResult:
        """Return the result of the search of stacks with the best settings in it.

        :raises InputError: if there is nothing to search by quality, or an option is unknown.
        :raises TfoptError: if the untuned training fails.
        """
        tune = self.tune
        spec = tune.request.recipe.tune or TuneSpec()
        found = SettingsSearch(
            sampler=spec.sampler or DEFAULT_SAMPLER,
            pruner=spec.pruner or DEFAULT_PRUNER,
            planned=spec.trials or DEFAULT_TRIALS,
            ranges={one.key: one.written for one in self.space},
            untuned={one.key: one.untuned for one in self.space if one.untuned is not None},
        )
        if not self.space:
            if tune.objective == "quality":
                problem = tune.request.reading.problem(
                    "tune.objective", NOTHING, "add [tune.options]"
                )
                raise RecipeError([problem])
            return self._with(result, attrs.evolve(found, statement=NOTHING))
        begun = tune.elapsed()
        tune.observer(SearchPhase(f"searching {', '.join(one.key for one in self.space)}"))
        try:
            self._know_the_metric()
            study = self._study(found)
        except KeyboardInterrupt:
            result = attrs.evolve(result, interrupted=True, why_ended=INTERRUPTED)
            return self._with(result, found)
        values = ValueSearch(tune=tune, runner=self._runner(), study=study)
        values.go()
        nothing = NOTHING_BETTER
        if not any(one.values for one in values.trials):
            nothing = f"no value was tried: {values.why_ended}"
        found = attrs.evolve(
            found, metric=self.metric, trials=tuple(values.trials), best=values.best,
            earned=tuple(values.earned), seconds=tune.elapsed() - begun, shared=study.shared(),
            statement="" if values.best else nothing,
        )  # fmt: skip
        result = attrs.evolve(
            result, interrupted=values.interrupted, why_ended=values.why_ended or result.why_ended
        )
        return self._with(result, found)

    def _with(self, result: TuneResult, found: SettingsSearch) -> TuneResult:
        return attrs.evolve(
            result, settings=found, stack=with_values(self.stack, found.best, self.space),
            search_seconds=self.tune.elapsed(), begun_from=tuple(self.tune.log.begun_from),
        )  # fmt: skip

    def proved(self, result: TuneResult) -> TuneResult:
        """Prove what a search by quality has found by fresh pairs of the recipe as it is against
        the best values, whole trainings.

        Four pairs are made in any case, else as many as the budget holds.
        """
        found, tune = result.settings, self.tune
        assert found is not None
        if not found.best:
            return attrs.evolve(result, statement=f"nothing helps here: {found.statement}")
        seconds = max(tune.budget - tune.elapsed(), LEAST_PROOF_SHARE * tune.budget)
        # the seconds of another machine say nothing of this one
        known = [one.run_seconds for one in found.trials if one.run_seconds and not one.machine]
        pair_seconds = 2 * (sum(known) / len(known) if known else seconds)
        pairs = pairs_within(seconds, pair_seconds)
        what = f"fresh pairs of the best values: {pairs} of whole trainings"
        tune.observer(SearchPhase(what, seconds_left=pairs * pair_seconds))
        proof = prove(
            self._runner(proves=True), found.best, pairs=pairs,
            seed=random.SystemRandom().randrange(1, 2**31),
            on_pair=lambda pair: tune.observer(
                SearchPhase(
                    f"{what}, {pair} done", minor=True, seconds_left=(pairs - pair) * pair_seconds
                )
            ),
        )  # fmt: skip
        return with_proof(result, proof)

    def reverted(self, result: TuneResult) -> TuneResult:
        """Return the result with the untuned values, since fresh pairs do not confirm the best."""
        assert result.settings is not None
        best = result.settings.best
        values = ", ".join(f"{split_path(key)[-1]} = {json.dumps(best[key])}" for key in best)
        settings = attrs.evolve(
            result.settings, best={}, statement=NOT_CONFIRMED.format(values=values)
        )
        return attrs.evolve(result, stack=self.stack, settings=settings)

    def _study(self, found: SettingsSearch) -> Study:
        """Return the study of the search: that of all machines in a storage, else this project's.

        :raises StoreError: if it cannot be opened.
        """
        tune, stack, untuned = self.tune, self.stack, dict(found.untuned)
        facts, storage = tune.log.own.facts, tune.storage
        if storage is not None:
            # stacks may differ: each trial compares with the same stack on the same machine
            names = {one.plugin for one in self.space} | set(tune.own)
            facts = study_facts(facts, str(tune.request.recipe.directory.resolve()), names)
            stack, untuned = (), {}
        place = place_of(stack, self.metric, self.sign, untuned)
        local = f"sqlite:///{tune.log.path.with_name(STUDIES_FILE)}"
        return Study(
            self.space, sampler=found.sampler, pruner=found.pruner, planned=found.planned,
            seed=tune.seed, sign=self.sign, search=tune.log.own.id,
            storage=storage or open_storage(local), shared=storage is not None,
            fresh=tune.fresh, name=study_name(facts, place, found.ranges),
        )  # fmt: skip

    def _runner(self, *, proves: bool = False) -> SettingsRunner:
        return SettingsRunner(
            tune=self.tune, stack=self.stack, space=self.space, metric=self.metric,
            sign=self.sign, proves=proves,
        )  # fmt: skip

    # By which metric

    def _know_the_metric(self) -> None:
        """Make dry builds of the user's own training: its options exist, its metric is reported."""
        if not self.tune.trains_whole:
            return
        prepared = self._dry_build()
        if self.tune.objective == "quality":
            self.metric, best = prepared.quality_metric, prepared.quality_direction
            if not self.metric.startswith("val_"):
                raise InputError(NO_VALIDATION.format(metric=self.metric))
            self.sign = 1.0 if best == "max" else -1.0
        else:
            target = self.tune.request.recipe.measure.target
            assert target is not None
            self.metric, self.sign = target.metric, 1.0 if target.at_least is not None else -1.0

    def _dry_build(self) -> Prepared:
        """Return a dry build with one value of each option, or without, if that value fails."""
        options = [one for one in self.space if not one.plugin]
        try:
            return self._prepared({one.key: _first(one) for one in options})
        except RecipeError as error:
            paths = {join_path("workload.options", (one.name,)): one.name for one in options}
            for found in error.problems:
                if found.path in paths:
                    path = join_path("tune.options", (paths[found.path],))
                    problem = self.tune.request.reading.problem(path, found.message)
                    raise RecipeError([problem]) from None
        except InputError:
            pass  # one value may be refused: its trials say so
        return self._prepared({})

    def _prepared(self, values: Mapping[str, Any]) -> Prepared:
        request = self.tune.request
        request = attrs.evolve(
            request, recipe=with_options(request.recipe, values, self.space),
            plugins=stacked(self.stack), folder=request.folder / "settings",
        )  # fmt: skip
        self.tune.deadline.lift()
        return prepare(request, self.tune.runner)[0]


def _first(one: Tunable) -> Any:
    return one.range.low if isinstance(one.range, Between) else one.range.values[0]
