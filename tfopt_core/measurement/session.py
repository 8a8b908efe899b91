"""Make a whole measurement: dry build, certificate, groups, verdict, the observers' run."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime

import attrs
from cattrs import unstructure

from tfopt_core.errors import InputError
from tfopt_core.measurement import progress
from tfopt_core.measurement.certifying import certified
from tfopt_core.measurement.conclude import conclude, save_best
from tfopt_core.measurement.fingerprint import CodeAtStart, fingerprint
from tfopt_core.measurement.groups import Groups
from tfopt_core.measurement.plan import added_stack, plan_of, recipe_path
from tfopt_core.measurement.progress import Observer
from tfopt_core.statistics.results import Results
from tfopt_core.store.database import Store
from tfopt_core.store.lock import held
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import OBSERVED, Prepared, Request, ScheduledRun, Variant
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
        certificate = None
        if certify:
            certificate, added = certified(
                request, prepared, added, seed=seed or 1, runner=runner, observer=observer
            )
        prepared = attrs.evolve(prepared, seconds=time.monotonic() - began)
        state = plan_of(request, prepared, seed=seed, certificate=certificate, added=added)
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
            observer=observer, began=began, code=at_start,
        )  # fmt: skip
        return conduct(groups, created_at)


def conduct(groups: Groups, created_at: str) -> Results:
    """Make the remaining groups, conclude, store the results and return them.

    :param created_at: when the measurement began, ISO 8601.
    """
    request, store = groups.request, groups.store
    assert store is not None
    groups.observer(
        progress.Ready(
            prepared=groups.prepared, state=groups.state, total_runs=groups.total_runs,
            runs_done=len(groups.runs),
        )
    )  # fmt: skip
    groups.go()
    results = conclude(groups, created_at)
    store.finish(results)
    # the results are stored before anything else can fail
    try:
        saved = save_best(request, groups.judgement, results.runs, keep=results.interrupted)
    except InputError as error:
        # the verdict is printed all the same
        results = attrs.evolve(results, warnings=(*results.warnings, str(error)))
    else:
        results = attrs.evolve(results, saved_model=saved)
    store.finish(results)
    if request.observers:
        # after all runs: its process must not disturb one
        results = observed(results, request, groups.state.seed or 1, groups.runner, groups.observer)
        store.finish(results)
    return results


def observed(
    results: Results, request: Request, seed: int, runner: Runner, observer: Observer
) -> Results:
    """Return the results with what the request's observers found in a run of the full stack.

    The run is no variant: no figure of the measurement comes from it. If it fails or Ctrl-C ends
    it, a warning says so.
    """
    names = ", ".join(stacked.name for stacked in request.observers)
    if results.interrupted:
        return _without(results, f"{names}: no extra run was made, since Ctrl-C ended the others")
    observer(progress.Noted(f"an extra, untimed run for {names}"))
    joined = request.observed()
    rounds = 1 + max((run.round for run in results.runs), default=-1)
    scheduled = ScheduledRun(rounds, 0, Variant(OBSERVED, joined.plugins), seed)
    try:
        run = Processes(joined, runner).run(
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
