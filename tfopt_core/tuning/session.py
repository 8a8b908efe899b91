"""One `tfopt tune`: diagnose, search, prove the winner by fresh pairs."""

from __future__ import annotations

from datetime import datetime

import attrs

from tfopt_core.diagnosis.draft import what_bounds
from tfopt_core.diagnosis.process import diagnose
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.session import measure
from tfopt_core.recipe import TuneSpec
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.verdict import Verdict
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.store.lock import held
from tfopt_core.trials.holdout import with_holdout
from tfopt_core.trials.request import Request
from tfopt_core.trials.workload_options import options_in_stack
from tfopt_core.tuning.candidates import proposing_plugins, search_space
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import BoundStep, TuneResult
from tfopt_core.tuning.search import GreedySearch, SearchLook
from tfopt_core.tuning.search_log import SearchLog, newest_stopped, place_of, read_searches
from tfopt_core.tuning.settings import ValueSearch
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.trials import TrialMaker
from tfopt_core.tuning.winner import LEAST_PROOF_SHARE, proof_recipe, with_proof

# The part of its budget that the search of stacks has where settings are searched after it.
STACKS_SHARE = 0.6


@attrs.define(kw_only=True, eq=False)
class TuneSession:
    """Carries out one search."""

    tune: SearchContext
    _baseline: str = ""

    def go(self) -> TuneResult:
        """Search, prove the winner, and return the result.

        :raises InputError: if there is nothing to resume, or the workload cannot be built.
        :raises TfoptError: if the baseline cannot be trained.
        """
        tune, facts = self.tune, self._facts()
        if tune.resuming:
            folder = tune.request.folder.parent
            stopped = newest_stopped(read_searches(folder), tune.target, facts)
            tune.request = attrs.evolve(tune.request, folder=folder / stopped.id)
        with held(tune.request.folder):
            tune.log = SearchLog.open(tune.request.folder, tune.target, facts, fresh=tune.fresh)
            with tune.searching() as tune.observer:
                maker = self._maker()
                search = self._search(maker)
                search.go()
                result = self._result(search)
                values = ValueSearch(maker=maker, stack=search.best)
                if self._searches_settings and not result.interrupted:
                    result = values.searched(result)
            if result.interrupted:
                return result
            try:
                if result.tuned_options:
                    result = self._proved(result)
                    assert result.proof is not None
                    if result.proof.comparison.verdict is not Verdict.FASTER:
                        result = result if result.interrupted else values.reverted(result)
                if not result.tuned_options:
                    result = self._proved(result) if result.stack else _nothing(result)
            except KeyboardInterrupt:
                return attrs.evolve(
                    result, interrupted=True,
                    why_ended="interrupted before the fresh pairs; --resume makes them",
                )  # fmt: skip
            if not result.interrupted:
                tune.log.write("end")
            return result

    @property
    def _searches_settings(self) -> bool:
        return (self.tune.request.recipe.tune or TuneSpec()).searches_settings

    # The search

    def _facts(self) -> dict[str, str]:
        """Return what all trials depend on: equal facts mean that a trial would come out alike."""
        tune, known = self.tune, registrations()
        classes = (
            (info.name, find(info.name, known).load())
            for info in tune.installed
            if info.error is None
        )
        plugins = tuple(StackedPlugin(name, object.__new__(one)) for name, one in classes)
        recipe = tune.request.recipe
        workload = recipe.workload.to_dict()
        return {
            **fingerprint(attrs.evolve(tune.request, plugins=plugins)),
            "workload": repr(sorted(workload.items(), key=lambda item: item[0])),
            "settings in the recipe": repr(sorted(tune.own.items())),
            "target of the recipe": repr(recipe.measure.target),
            "objective": tune.objective,
        }

    def _maker(self) -> TrialMaker:
        tune, request = self.tune, self.tune.request
        if tune.objective == "time-to-target":
            # the target steers the search, so it is read on data that no verdict uses
            request = attrs.evolve(request, recipe=with_holdout(request.recipe))
        return TrialMaker(tune=tune, request=request)

    def _search(self, maker: TrialMaker) -> GreedySearch:
        tune, searched = self.tune, maker.request
        proposing = proposing_plugins(tune.installed)

        def look(stack: Stack) -> SearchLook:
            diagnosed = self._diagnosed(searched, stack)
            self._baseline = self._baseline or diagnosed.baseline
            bound = BoundStep(
                stack=tuple(one.name for one in stack),
                sentence=what_bounds(diagnosed),
                shares={part: getattr(diagnosed, part).share for part in PARTS},
            )
            candidates, not_tried = search_space(
                diagnosed, tune.installed, proposing=proposing, own=tune.own,
                objective=tune.objective, only=tune.only,
                is_script=searched.recipe.workload.is_script,
            )  # fmt: skip
            return SearchLook(bound, candidates, not_tried)

        return GreedySearch(
            look=look, log=tune.log, elapsed=tune.elapsed, observer=tune.observer,
            attempt=maker,
            budget=(STACKS_SHARE if self._searches_settings else 1.0) * tune.budget,
            known={one.name: one.traits for one in tune.installed if one.traits is not None},
            owners=frozenset(one.name for one in tune.installed if OWNER_HOOK in one.hooks),
        )  # fmt: skip

    def _diagnosed(self, searched: Request, stack: Stack) -> Diagnosed:
        """Return the diagnosis of a stack, which may be that of an earlier search."""
        tune = self.tune
        kept = tune.log.found("look", place_of(stack), Diagnosed)
        if kept is not None:
            return kept[0]
        request = attrs.evolve(
            searched, plugins=stacked(stack), folder=searched.folder / "diagnosis"
        )
        tune.observer("diagnosing what bounds a step")
        # the first look decides what is tried, so it is worth its minute; the quick one of a script
        # compares loops, which the other does not
        diagnosed = diagnose(
            request, tune.runner, tune.installed, tune.observer,
            quick=bool(stack) or request.recipe.workload.is_script,
        )  # fmt: skip
        tune.log.write("look", place_of(stack), diagnosed, diagnosed.seconds)
        return diagnosed

    # The proof

    def _proved(self, result: TuneResult) -> TuneResult:
        """Measure the winner against the baseline by pairs that the search has not seen."""
        tune = self.tune
        recipe = proof_recipe(
            tune.request.recipe, result, objective=tune.objective, path=tune.proof_path,
            seconds=max(tune.budget - tune.elapsed(), LEAST_PROOF_SHARE * tune.budget),
        )  # fmt: skip
        folder = tune.request.folder
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        request = attrs.evolve(
            tune.request, recipe=recipe,
            plugins=(*options_in_stack(recipe), *stacked(result.stack)),
            folder=folder.parent.parent / "runs" / f"{stamp}-{folder.name[-4:]}",
        )  # fmt: skip
        with tune.measuring() as observer:
            proof = measure(request, runner=tune.runner, store=tune.store, observer=observer)
        return with_proof(result, proof)

    def _result(self, search: GreedySearch) -> TuneResult:
        tune, recipe, own = self.tune, self.tune.request.recipe, self.tune.log.own
        return TuneResult(
            id=own.id, recipe=recipe.name, workload=recipe.workload.label,
            baseline=self._baseline, objective=tune.objective, budget_seconds=tune.budget,
            machine=tune.request.machine.to_dict(), bounds=tuple(search.bounds),
            trials=tuple(search.trials), not_tried=tuple(search.not_tried.values()),
            stack=search.best, search_seconds=tune.elapsed(),
            begun_from=tuple(tune.log.begun_from), resumed=own.resumed,
            interrupted=search.interrupted, why_ended=search.why_ended,
            warnings=tuple(search.warnings),
        )  # fmt: skip


def _nothing(result: TuneResult) -> TuneResult:
    """Return the result with the statement that nothing helps, or that the fresh pairs confirm no
    value."""
    tried = len({name for one in result.trials for name in one.plugins})
    took = seconds_in_words(result.search_seconds)
    plugins = f"{tried} plugins were tried and none stays"
    if tried < 2:
        plugins = "1 plugin was tried and does not stay" if tried else "no plugin was tried"
    what = f"nothing helps here: {plugins}"
    if result.proof is not None:
        what = f"nothing is proved to help here: the fresh pairs confirm no value, and {plugins}"
    elif not tried and result.why_ended:
        what = f"nothing was tried: {result.why_ended}"
    elif not tried:
        what = "nothing to gain: no installed plugin is worth trying here"
    return attrs.evolve(result, statement=f"{what}; that took {took}")
