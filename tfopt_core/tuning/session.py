"""One `tfopt tune`: diagnose, search, prove the winner by fresh pairs."""

from __future__ import annotations

from datetime import datetime

import attrs

from tfopt_core.diagnosis.process import diagnose
from tfopt_core.diagnosis.results import Diagnosed
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.session import measure
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.statistics.results import Verdict
from tfopt_core.store.lock import held
from tfopt_core.trials.request import Request
from tfopt_core.trials.workload_options import options_in_stack
from tfopt_core.tuning.candidates import search_space, stacked
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import NotTried, Stack, TuneResult
from tfopt_core.tuning.search import GreedySearch
from tfopt_core.tuning.search_log import SearchLog, digest, newest_stopped, read_searches
from tfopt_core.tuning.settings import ValueSearch
from tfopt_core.tuning.trials import TrialMaker
from tfopt_core.tuning.winner import LEAST_PROOF_SHARE, proof_recipe

# The part of its budget that the search of stacks has where settings are searched after it.
STACKS_SHARE = 0.6


def search(tune: SearchContext) -> TuneResult:
    """Search, prove the winner, and return the result.

    :raises InputError: if there is nothing to resume, or the workload cannot be built.
    :raises TfoptError: if the baseline cannot be trained.
    """
    facts, target = _facts(tune), tune.options.target
    if tune.options.resuming:
        folder = tune.request.folder.parent
        stopped = newest_stopped(read_searches(folder), target, facts)
        tune.request = attrs.evolve(tune.request, folder=folder / stopped.id)
    with held(tune.request.folder):
        tune.log = SearchLog.open(tune.request.folder, target, facts, fresh=tune.options.fresh)
        recipe, own = tune.request.recipe, tune.log.own
        result = TuneResult(
            id=own.id, recipe=recipe.name, workload=recipe.workload.label,
            objective=tune.objective, budget_seconds=tune.budget,
            machine=tune.request.machine.to_dict(), resumed=own.resumed,
        )  # fmt: skip
        with tune.searching() as tune.observer:
            maker = TrialMaker(tune=tune)
            _search_stacks(tune, maker, result)
            values = ValueSearch(maker=maker, result=result)
            if tune.spec.searches_settings and not result.interrupted:
                values.search()
        result.search_seconds = tune.elapsed()
        result.begun_from = tuple(tune.log.begun_from)
        if result.interrupted:
            return result
        try:
            if result.tuned_options:
                _prove(tune, result)
                assert result.proof is not None
                if result.proof.comparison.verdict is not Verdict.FASTER and not result.interrupted:
                    values.revert()
            if not result.tuned_options:
                if result.stack:
                    _prove(tune, result)
                else:
                    result.statement = _nothing(result)
        except KeyboardInterrupt:
            result.interrupted = True
            result.why_ended = "interrupted before the fresh pairs; --resume makes them"
        if not result.interrupted:
            tune.log.write("end")
        return result


def _facts(tune: SearchContext) -> dict[str, str]:
    """Return what all trials depend on: equal facts mean that a trial would come out alike."""
    known, recipe = registrations(), tune.request.recipe
    plugins = tuple(
        StackedPlugin(one.name, object.__new__(find(one.name, known).load()))
        for one in tune.installed
        if one.error is None
    )
    return {
        **fingerprint(attrs.evolve(tune.request, plugins=plugins)),
        "workload": repr(sorted(recipe.workload.to_dict().items(), key=lambda item: item[0])),
        "settings in the recipe": repr(sorted(tune.own.items())),
        "target of the recipe": repr(recipe.measure.target),
        "objective": tune.objective,
    }


def _search_stacks(tune: SearchContext, maker: TrialMaker, result: TuneResult) -> None:
    """Search for the best stack, and fill in the result."""
    share = STACKS_SHARE if tune.spec.searches_settings else 1.0
    search = GreedySearch(
        tune, lambda stack: search_space(tune, _diagnosed(tune, maker.request, stack)), maker,
        share * tune.budget, result,
    )  # fmt: skip
    search.go()
    result.not_tried = tuple(
        NotTried(plugin=one, reason=why) for one, why in search.not_tried.items()
    )


def _diagnosed(tune: SearchContext, searched: Request, stack: Stack) -> Diagnosed:
    """Return the diagnosis of a stack, which may be that of an earlier search."""
    kept = tune.log.found("look", digest(stack), Diagnosed)
    if kept is not None:
        return kept[0]
    request = attrs.evolve(searched, plugins=stacked(stack), folder=searched.folder / "diagnosis")
    tune.observer("diagnosing what bounds a step")
    # the first look decides what is tried, so it is worth its minute; the quick one of a script
    # compares loops, which the other does not
    diagnosed = diagnose(
        request, tune.runner, tune.installed, tune.observer,
        quick=bool(stack) or request.recipe.workload.is_script,
    )  # fmt: skip
    tune.log.write("look", digest(stack), diagnosed, diagnosed.seconds)
    return diagnosed


def _prove(tune: SearchContext, result: TuneResult) -> None:
    """Measure the winner by pairs that the search has not seen."""
    recipe = proof_recipe(
        tune.request.recipe, result, path=tune.proof_path,
        seconds=max(tune.budget - tune.elapsed(), LEAST_PROOF_SHARE * tune.budget),
    )  # fmt: skip
    folder, stamp = tune.request.folder, datetime.now().strftime("%Y%m%d-%H%M%S")
    request = attrs.evolve(
        tune.request, recipe=recipe,
        plugins=(*options_in_stack(recipe), *stacked(result.stack)),
        folder=folder.parent.parent / "runs" / f"{stamp}-{folder.name[-4:]}",
    )  # fmt: skip
    with tune.measuring() as observer:
        proof = measure(request, runner=tune.runner, store=tune.store, observer=observer)
    result.proof, result.interrupted = proof, proof.interrupted
    # with the seconds of values that were not confirmed
    result.proof_seconds += proof.seconds
    if proof.interrupted:
        result.why_ended = "interrupted among the fresh pairs; --resume makes them anew"
    result.statement = (
        f"the search took {result.search_seconds:.0f} s and its proof {result.proof_seconds:.0f} s"
    )


def _nothing(result: TuneResult) -> str:
    """Return the statement that nothing helps, or that the fresh pairs confirm no value."""
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
    return f"{what}; that took {took}"
