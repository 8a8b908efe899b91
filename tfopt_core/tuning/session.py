"""One `tfopt tune`: diagnose, search, prove the winner by fresh pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.diagnosis.draft import what_bounds
from tfopt_core.diagnosis.process import diagnose
from tfopt_core.errors import InputError
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.fingerprint import differences, fingerprint
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.session import measure
from tfopt_core.recipe import Objective
from tfopt_core.recipe.model import TuneObjective
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.results import Results
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.store.database import Store
from tfopt_core.store.lock import held
from tfopt_core.training.holdout import with_holdout
from tfopt_core.trials.request import Request
from tfopt_core.tuning.candidates import proposing_plugins, search_space
from tfopt_core.tuning.deadline import ProcessDeadline
from tfopt_core.tuning.progress import SearchObserver, SearchPhase
from tfopt_core.tuning.proof import LEAST_PROOF_SHARE, proof_recipe, proved
from tfopt_core.tuning.results import BoundStep, SettingsSearch, TunedPlugin, TuneResult
from tfopt_core.tuning.search import GreedySearch, SearchLook
from tfopt_core.tuning.search_log import SearchLog, SearchRecord, place_of, read_searches
from tfopt_core.tuning.settings_session import SettingsSession
from tfopt_core.tuning.stacks import Stack, stacked
from tfopt_core.tuning.storage import StudyStorage
from tfopt_core.tuning.trial_runs import TrialRunner
from tfopt_core.workers.spawn import Runner

# The part of its budget that the search of stacks has where settings are searched after it.
STACKS_SHARE = 0.6


@attrs.frozen(kw_only=True)
class TuneRequest:
    """What is searched for, and how long.

    :param request: the request of the recipe without plugins; its folder is that of a new search.
    :param target: what the user named, by which `--resume` finds the search again.
    :param own: the settings of the plugins that the recipe names.
    :param only: the only plugins to try; empty for all that are installed.
    :param resuming: go on with the newest search of this target that was stopped.
    :param fresh: begin from nothing, whatever earlier searches have left.
    :param proof_path: where the winner's recipe will lie.
    :param storage: where machines share the search of settings; None for this machine alone.
    """

    request: Request
    target: str
    own: Mapping[str, Mapping[str, Any]]
    objective: TuneObjective
    budget: float
    installed: tuple[PluginInfo, ...]
    proof_path: Path
    only: frozenset[str] = frozenset()
    resuming: bool = False
    fresh: bool = False
    storage: StudyStorage | None = None


@attrs.define(kw_only=True, eq=False)
class TuneSession:
    """Carries out one search.

    :param runner: runs the processes of the trials; its limits call `deadline`.
    :param observer: shows the search, and `measuring` gives the observer of its proof.
    """

    asked: TuneRequest
    runner: Runner
    deadline: ProcessDeadline
    store: Store
    observer: SearchObserver
    measuring: Callable[[], AbstractContextManager[Observer]]
    now: Callable[[], float] = time.monotonic
    _request: Request = attrs.field(init=False)
    _baseline: str = ""
    _earlier_seconds: float = 0.0
    _begun: float = 0.0

    def __attrs_post_init__(self) -> None:
        self._request = self.asked.request
        self._begun = self.now()

    def go(self) -> TuneResult:
        """Search, prove the winner, and return the result.

        :raises InputError: if there is nothing to resume, or the workload cannot be built.
        :raises TfoptError: if the baseline cannot be trained.
        """
        facts = self._facts()
        stopped = self._stopped(facts) if self.asked.resuming else None
        with held(self._request.folder):
            log = self._log(facts, stopped)
            search = self._search(log)
            if self.asked.objective == "quality":
                search.best = self._own_stack()
            else:
                search.go()
            settings = self._settings(log, search.best)
            result = self._result(search, log, self._elapsed())
            if search.interrupted:
                return result
            if settings is not None:
                result = settings.searched(result)
                result = settings.proved(result)
                if result.interrupted:
                    return result
                if result.tuned_options or self.asked.objective == "quality":
                    log.write("end")
                    return result
            if not result.stack:
                log.write("end")
                return attrs.evolve(result, statement=_nothing(search, result.settings))
            try:
                proof = self._proof(result.stack, self.asked.budget - self._elapsed())
            except KeyboardInterrupt:
                return attrs.evolve(
                    result, interrupted=True,
                    why_ended="interrupted before the fresh pairs; --resume makes them",
                )  # fmt: skip
            if not proof.interrupted:
                log.write("end")
            return proved(result, proof)

    # The search

    def _stopped(self, facts: Mapping[str, str]) -> SearchRecord:
        """Return the search to resume, whose folder is now that of the request.

        :raises InputError: if there is none, or what it depends on has changed; names what.
        """
        searches = read_searches(self._request.folder.parent)
        stopped = _newest_stopped(searches, self.asked.target, facts)
        folder = self._request.folder.parent / stopped.id
        self._request = attrs.evolve(self._request, folder=folder)
        self._earlier_seconds = stopped.seconds
        return stopped

    def _log(self, facts: Mapping[str, str], stopped: SearchRecord | None) -> SearchLog:
        """Return the log of a new search, or of the stopped one, which this process holds."""
        folder = self._request.folder
        searches = () if self.asked.fresh else read_searches(folder.parent)
        earlier = tuple(one for one in searches if one.facts == facts and one.id != folder.name)
        if stopped is None:
            return SearchLog.begin(folder, self.asked.target, facts, earlier)
        return SearchLog.resume(folder, stopped, earlier)

    def _facts(self) -> dict[str, str]:
        """Return what all trials depend on: equal facts mean that a trial would come out alike."""
        asked, known = self.asked, registrations()
        classes = (
            (info.name, find(info.name, known).load())
            for info in asked.installed
            if info.error is None
        )
        plugins = tuple(StackedPlugin(name, object.__new__(one)) for name, one in classes)
        facts = fingerprint(attrs.evolve(self._request, plugins=plugins))
        workload = self._request.recipe.workload.to_dict()
        return {
            **facts,
            "workload": repr(sorted(workload.items(), key=lambda item: item[0])),
            "settings in the recipe": repr(sorted(asked.own.items())),
            "target of the recipe": repr(self._request.recipe.measure.target),
            "objective": asked.objective,
        }

    def _search(self, log: SearchLog) -> GreedySearch:
        installed = self.asked.installed
        searched = self._request
        objective: Objective = "time" if self.asked.objective == "quality" else self.asked.objective
        follows = self._request.recipe.searches_settings(self.asked.objective)
        share = STACKS_SHARE if follows else 1.0
        if objective == "time-to-target":
            # the target steers the search, so it is read on data that no verdict uses
            searched = attrs.evolve(searched, recipe=with_holdout(searched.recipe))
        attempt = TrialRunner(
            request=searched, runner=self.runner, objective=objective,
            deadline=self.deadline, seed=_seed_of(log.own.id), now=self.now,
        )  # fmt: skip
        proposing = proposing_plugins(installed)

        def look(stack: Stack) -> SearchLook:
            kept = log.found("look", place_of(stack), Diagnosed)
            if kept is not None:
                diagnosed = kept[0]
            else:
                request = attrs.evolve(
                    searched, plugins=stacked(stack),
                    folder=searched.folder / "diagnosis",
                )  # fmt: skip
                self.observer(SearchPhase("diagnosing what bounds a step"))
                self.deadline.lift()
                # the first look decides what is tried, so it is worth its minute; the quick one of
                # a script compares loops, which the other does not
                quick = bool(stack) or request.recipe.workload.is_script
                diagnosed = diagnose(
                    request, self.runner, installed,
                    lambda phase: self.observer(SearchPhase(phase, minor=True)), quick=quick,
                )  # fmt: skip
                log.write("look", place_of(stack), diagnosed, diagnosed.seconds)
            self._baseline = self._baseline or diagnosed.baseline
            bound = BoundStep(
                stack=tuple(one.name for one in stack),
                sentence=what_bounds(diagnosed),
                shares={part: getattr(diagnosed, part).share for part in PARTS},
            )
            space = search_space(
                diagnosed, installed, proposing=proposing, own=self.asked.own,
                objective=objective, only=self.asked.only,
                is_script=self._request.recipe.workload.is_script,
            )  # fmt: skip
            return SearchLook(bound, space)

        return GreedySearch(
            look=look, attempt=attempt, log=log, elapsed=self._elapsed,
            budget=share * self.asked.budget, observer=self.observer,
            known={one.name: one.traits for one in installed if one.traits is not None},
            owners=frozenset(one.name for one in installed if OWNER_HOOK in one.hooks),
        )  # fmt: skip

    # Settings

    def _own_stack(self) -> Stack:
        """Return the stack of the recipe, whose settings are searched by quality."""
        return tuple(
            TunedPlugin(name=name, settings=settings) for name, settings in self.asked.own.items()
        )

    def _settings(self, log: SearchLog, stack: Stack) -> SettingsSession | None:
        """Return the search of settings that the recipe asks for, None if it asks for none."""
        asked = self.asked
        if not self._request.recipe.searches_settings(asked.objective):
            return None
        return SettingsSession(
            request=self._request, objective=asked.objective, stack=stack, own=asked.own,
            installed=asked.installed, runner=self.runner, deadline=self.deadline,
            log=log, elapsed=self._elapsed, budget=asked.budget, seed=_seed_of(log.own.id),
            observer=self.observer, now=self.now, storage=asked.storage, fresh=asked.fresh,
        )  # fmt: skip

    def _elapsed(self) -> float:
        return self._earlier_seconds + self.now() - self._begun

    # The proof

    def _proof(self, stack: Stack, seconds: float) -> Results:
        """Measure the winner against the baseline by pairs that the search has not seen."""
        asked = self.asked
        assert asked.objective != "quality"  # its values are proved by pairs of their own
        recipe = proof_recipe(
            self._request.recipe, stack, objective=asked.objective, path=asked.proof_path,
            seconds=max(seconds, LEAST_PROOF_SHARE * asked.budget),
        )  # fmt: skip
        plugins = stacked(stack)
        folder = self._request.folder.parent.parent / "runs"
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        request = attrs.evolve(
            self._request, recipe=recipe, plugins=plugins,
            folder=folder / f"{stamp}-{self._request.folder.name[-4:]}",
        )  # fmt: skip
        self.observer(
            SearchPhase("fresh pairs of the winner against the baseline", measurement=True)
        )
        self.deadline.lift()
        with self.measuring() as observer:
            return measure(request, runner=self.runner, store=self.store, observer=observer)

    def _result(self, search: GreedySearch, log: SearchLog, searched: float) -> TuneResult:
        recipe = self._request.recipe
        return TuneResult(
            id=log.own.id,
            recipe=recipe.name,
            workload=recipe.workload.label,
            baseline=self._baseline,
            objective=self.asked.objective,
            budget_seconds=self.asked.budget,
            machine=self._request.machine.to_dict(),
            bounds=tuple(search.bounds),
            trials=tuple(search.trials),
            not_tried=tuple(search.not_tried.values()),
            stack=search.best,
            search_seconds=searched,
            begun_from=tuple(log.begun_from),
            resumed=log.own.resumed + self.asked.resuming,
            interrupted=search.interrupted,
            why_ended=search.why_ended,
            warnings=tuple(search.warnings),
        )


def _nothing(search: GreedySearch, settings: SettingsSearch | None) -> str:
    """Return that nothing helps, or that the fresh pairs confirm no value."""
    tried = len({name for one in search.trials for name in one.plugins})
    took = seconds_in_words(search.elapsed())
    plugins = f"{tried} plugins were tried and none stays"
    if tried < 2:
        plugins = "1 plugin was tried and does not stay" if tried else "no plugin was tried"
    if settings is not None and settings.proof is not None:
        what = f"the fresh pairs confirm no value, and {plugins}"
        return f"nothing is proved to help here: {what}; that took {took}"
    if not tried and search.why_ended:
        return f"nothing was tried: {search.why_ended}; that took {took}"
    if not tried:
        return f"nothing to gain: no installed plugin is worth trying here; that took {took}"
    return f"nothing helps here: {plugins}; that took {took}"


def _newest_stopped(
    searches: Sequence[SearchRecord], target: str, facts: Mapping[str, str]
) -> SearchRecord:
    """Return the newest search of a target that was stopped.

    :raises InputError: if there is none, or what it depends on has changed; names what.
    """
    for one in searches:
        if one.target != target or one.ended:
            continue
        changes = differences(one.facts, facts)
        if changes:
            raise InputError(
                f'search "{one.id}" cannot be resumed, its trials would not compare: '
                f"{'; '.join(changes)}; undo that, or search anew without --resume"
            )
        return one
    raise InputError(
        f'there is nothing to resume: no search of "{target}" was stopped; leave out --resume'
    )


def _seed_of(text: str) -> int:
    """Return the seed of a search: the same after a resume."""
    return int.from_bytes(text.encode()[-6:], "big") % 2**31
