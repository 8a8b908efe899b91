"""Make a whole measurement, or go on with one that was stopped: dry build, certificate, groups,
verdict, the observers' run."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import attrs
from cattrs import structure, unstructure

from tfopt_core.errors import DamagedMeasurement, InputError
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.measurement import progress
from tfopt_core.measurement.certifying import certified
from tfopt_core.measurement.conclude import conclude, save_best
from tfopt_core.measurement.fingerprint import (
    CodeAtStart,
    differences,
    fingerprint,
    recipe_differences,
)
from tfopt_core.measurement.groups import Groups
from tfopt_core.measurement.plan import MeasurementState, added_stack, plan_of
from tfopt_core.measurement.progress import Observer
from tfopt_core.recipe.model import PluginEntry, Recipe
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.results import Results
from tfopt_core.store.database import Store
from tfopt_core.store.decoding import Overview, reading
from tfopt_core.store.lock import held
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import (
    OBSERVED,
    Prepared,
    Request,
    ScheduledRun,
    Variant,
    with_prepared,
)
from tfopt_core.workers.spawn import Runner


def measure(
    request: Request,
    *,
    runner: Runner,
    store: Store,
    observer: Observer,
    certify: bool = True,
    prepared_before: tuple[Prepared, Request] | None = None,
    extended: Prepared | None = None,
) -> Results:
    """Measure the baseline against the stack and return the results.

    Ctrl-C (KeyboardInterrupt) ends the measuring: the current group is discarded, and the others
    are returned, marked as interrupted. Before the first run it is raised.

    :param prepared_before: the results of `prepare` with an estimate, if it was called already.
    :param certify: whether to replay a short training first, for the equivalence certificate.
    :param extended: the dry build of `request.added`, which is measured as a second contrast.
    :raises InputError, PreparationFailed: before any run.
    :raises StoreError: if a run cannot be stored.
    """
    with held(request.folder):
        began = time.monotonic()
        observer(progress.Preparing())
        # before the plugins' settings are resolved, as a resume reads it
        code, at_start = fingerprint(request), CodeAtStart.of(request.recipe)
        prepared, request = prepared_before or prepare(request, runner, estimate=True)
        added = None if extended is None else added_stack(prepared, extended)
        seed = random.SystemRandom().randrange(2**31) if request.seed is None else request.seed
        certificates: dict[str, Certificate] = {}
        if certify:
            certificates = certified(
                request, prepared, added, seed=seed or 1, runner=runner, observer=observer
            )
        prepared = attrs.evolve(prepared, seconds=time.monotonic() - began)
        state = plan_of(
            request, prepared, seed=seed, certificates=certificates, added=added,
            forks=Processes(request, runner).start_as_forks(),
        )  # fmt: skip
        if state.note:
            prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, state.note))
        created_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        store.begin(
            request.folder.name, created_at, request.recipe.name, request.recipe.sha256(),
            {
                "recipe": request.recipe.to_dict(), "recipe_path": recipe_path(request.recipe),
                "resolved": prepared.resolved, "prepared": unstructure(prepared),
                "course": unstructure(state), "fingerprint": code,
            },
        )  # fmt: skip
        groups = Groups(
            request=request, prepared=prepared, state=state, runner=runner, store=store,
            observer=observer, began=began, created_at=created_at, code=at_start,
        )  # fmt: skip
        return conduct(groups)


def resume(
    request: Request,
    *,
    runner: Runner,
    store: Store,
    observer: Observer,
) -> Results:
    """Resume the newest measurement of this recipe that was stopped, and return its results.

    Its runs, order, seeds and resolved settings are kept. The run that was interrupted is repeated
    from its start, since a resumed run is no timing sample.

    :raises InputError: if there is none, or if recipe, code, versions, machine or environment have
        changed; names which.
    :raises StoreError: if another process is still measuring it, or its record is damaged.
    """
    stopped = _newest(request, store)
    request = attrs.evolve(request, folder=request.folder.parent / stopped.id)
    with held(request.folder):
        if store.overview_of(stopped.id).state == "finished":
            why = f'measurement "{stopped.id}" has been finished by another tfopt meanwhile'
            raise InputError(why)
        # a killed replay may have left its batches, which can be large
        shutil.rmtree(request.folder / "replay", ignore_errors=True)
        stored = store.request_of(stopped.id)
        with reading(stopped.id, store.path, '"resolved" or "course" of its request'):
            request = _with_measured(request, stopped.id, stored)
        code = fingerprint(request)
        with reading(stopped.id, store.path, '"recipe" or "fingerprint" of its request'):
            changes = [
                *recipe_differences(stored["recipe"], request.recipe.to_dict()),
                *differences(structure(stored["fingerprint"], dict[str, str]), code),
            ]
        if changes:
            raise InputError(
                f'measurement "{stopped.id}" cannot be resumed, its runs would not compare: '
                f"{'; '.join(changes)}; undo that, or measure anew without --resume"
            )
        with reading(stopped.id, store.path, '"prepared" or "course" of its request'):
            prepared = structure(stored["prepared"], Prepared)
            state = structure(stored["course"], MeasurementState)
        state = attrs.evolve(state, resumed=state.resumed + 1)
        request = with_prepared(request, prepared)
        runs = store.runs(stopped.id)
        spent = prepared.seconds + sum(run.process_seconds or 0.0 for run in runs)
        store.update_request(stopped.id, course=unstructure(state))
        groups = Groups(
            request=request, prepared=prepared, state=state, runs=list(runs),
            runner=runner, store=store, observer=observer, earlier=spent,
            created_at=stopped.created_at, code=CodeAtStart.of(request.recipe),
        )  # fmt: skip
        return conduct(groups)


def _with_measured(request: Request, measurement: str, stored: Mapping[str, Any]) -> Request:
    """Return the request with what a first contact measured and wrote as comments: the plugins of
    the second contrast, with the settings that were measured.

    :raises InputError: if one of them cannot be configured any more.
    """

    if (added := stored["course"].get("added")) is None:
        return request
    assembled, problems = assemble(
        [PluginEntry(name, dict(values)) for name, values in added["resolved"].items()]
    )
    if problems:
        why = f'measurement "{measurement}" cannot be resumed: {problems[0].message}'
        raise InputError(why)
    return attrs.evolve(request, added=assembled)


def _newest(request: Request, store: Store) -> Overview:
    """Return the newest measurement of the recipe that was stopped.

    :raises DamagedMeasurement: if it is damaged, rather than resuming an older one.
    """
    name, path = request.recipe.name, recipe_path(request.recipe)
    for stopped in store.unfinished():
        same = stopped.recipe == name
        with suppress(DamagedMeasurement):
            stored = store.request_of(stopped.id)
            same = stored.get("recipe_path") == path and (path is not None or same)
        if same:
            return store.overview_of(stopped.id)
    folder = store.path.parent
    raise InputError(
        f'there is nothing to resume: no measurement of "{name}" in "{folder}" was stopped; leave '
        "out --resume to measure it"
    )


def recipe_path(recipe: Recipe) -> str | None:
    """Return the path of a recipe, by which its measurements are found again."""
    return None if recipe.path is None else str(recipe.path.resolve())


def conduct(groups: Groups) -> Results:
    """Make the remaining groups, conclude, store the results and return them."""
    request, store = groups.request, groups.store
    assert store is not None
    groups.observer(
        progress.Ready(
            prepared=groups.prepared, state=groups.state, total_runs=groups.total_runs,
            runs_done=len(groups.runs),
        )
    )  # fmt: skip
    groups.go()
    results = conclude(groups)
    store.finish(results)
    # the results are stored before anything else can fail
    try:
        saved = save_best(groups, results.runs)
    except InputError as error:
        # the verdict is printed all the same
        results = attrs.evolve(results, warnings=(*results.warnings, str(error)))
    else:
        results = attrs.evolve(results, saved_model=saved)
    store.finish(results)
    if request.observers:
        # after all runs: its process must not disturb one
        results = observed(results, groups)
        store.finish(results)
    return results


def observed(results: Results, groups: Groups) -> Results:
    """Return the results with what the request's observers found in a run of the full stack.

    The run is no variant: no figure of the measurement comes from it. If it fails or Ctrl-C ends
    it, a warning says so.
    """
    request = groups.request
    names = ", ".join(stacked.name for stacked in request.observers)
    if results.interrupted:
        return _without(results, f"{names}: no extra run was made, since Ctrl-C ended the others")
    groups.observer(progress.Noted(f"an extra, untimed run for {names}"))
    joined = request.observed()
    rounds = 1 + max((run.round for run in results.runs), default=-1)
    scheduled = ScheduledRun(rounds, 0, Variant(OBSERVED, joined.plugins), groups.state.seed or 1)
    try:
        run = Processes(joined, groups.runner).run(
            scheduled, f"{request.folder.name}-{OBSERVED}", lambda message: None
        )
    except KeyboardInterrupt:
        return _without(results, f"{names}: Ctrl-C ended the extra run")
    if not run.ok:
        return _without(results, f"{names}: the extra run failed: {run.error}")
    found = {stacked.name: run.effects[stacked.name] for stacked in request.observers}
    return attrs.evolve(results, observed=found)


def _without(results: Results, warning: str) -> Results:
    return attrs.evolve(results, warnings=(*results.warnings, warning))
