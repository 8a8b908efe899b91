"""Measure a recipe or a script, as `tfopt apply` and `tfopt_core.apply` do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.apply_options import ApplyOptions
from tfopt_core.app.command_request import (
    alone_in_project,
    check_none_described,
    cluster_of,
    make_request,
    project_of,
    results_of,
    seconds_of,
)
from tfopt_core.app.first_contact import (
    NothingToMeasure,
    check_contact,
    keep_outcome,
    look_at,
    nothing_to_measure,
    prepared_for,
)
from tfopt_core.app.script_target import script_of
from tfopt_core.errors import InputError
from tfopt_core.trials.workload_options import options_in_stack

if TYPE_CHECKING:
    from tfopt_core.app.view import View
    from tfopt_core.records.results import Results
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.spawn import Runner
    from tfopt_core.workers.supervise import Limits


PLAN = (
    "looking at {script} for up to 30 s, trying what it proposes for about a minute, then pairs of "
    "runs"
)


def conduct(options: ApplyOptions, view: View) -> Results | NothingToMeasure:
    """Measure, unless a look at a script finds nothing that is worth it.

    While another process measures in the project, wait for it.

    :param view: shows the progress.
    :raises InputError: for errors in the recipe, the script or the options.
    :raises TfoptError: for an error that prevents every run.
    """
    with ExitStack() as alone:
        return _conduct(
            options, view,
            lambda results: alone.enter_context(
                alone_in_project(
                    results, f"tfopt apply {options.target}", view, no_wait=options.no_wait
                )
            ),
        )  # fmt: skip


def _conduct(
    options: ApplyOptions, view: View, wait: Callable[[Path], object]
) -> Results | NothingToMeasure:
    """Measure, or return that nothing is worth it.

    :param wait: waits until nobody else measures, called with the folder of the project's results
        once everything has been checked that can be.
    """
    from tfopt_core.measurement.resume import resume
    from tfopt_core.measurement.session import measure
    from tfopt_core.store.database import Store, store_path
    from tfopt_core.workers.supervise import Limits

    limit = None if options.time_limit is None else seconds_of("--time-limit", options.time_limit)
    limits = Limits(total=limit)
    target, contact = options.target, None
    spec = script_of(target, module=options.module)
    if spec is not None:
        spec = check_contact(options, spec)  # bad input is said before anybody waits
        # where its recipe goes
        folder = (options.write_to or Path("recipe.toml")).absolute().parent
        wait(results_of(project_of(folder)))
        view.plan(PLAN.format(script=spec.label))
        contact = look_at(options, spec, limits, view)
        if contact.measured is None:
            return nothing_to_measure(target, contact.draft)
        target = str(contact.path)
    request, folder = make_request(
        target, options.changes() if contact is None else options.overrides,
        # a first contact that found nothing exact writes a recipe of comments, and resumes it
        compares=not options.resuming and (contact is None or bool(contact.draft.stack)),
        save_to=options.save_to, debug=options.debug,
    )  # fmt: skip
    if contact is None:
        wait(folder)
    with (
        Store(store_path(folder.parent)) as store,
        view.measuring() as observer,
        _runner(request, limits) as runner,
    ):
        if options.resuming:
            stack = (*options_in_stack(request.recipe), *request.plugins)
            request = attrs.evolve(request, plugins=stack)
            return resume(request, runner=runner, store=store, observer=observer)
        if contact is None:
            return measure(request, runner=runner, store=store, observer=observer)
        prepared, request = prepared_for(contact, request)
        results = measure(
            request, runner=runner, store=store, observer=observer,
            prepared_before=(prepared, request),
            extended=None if contact.extended is None else contact.extended.prepared,
        )  # fmt: skip
    try:
        keep_outcome(contact, results)
    except InputError as error:
        # the verdict is printed all the same
        return attrs.evolve(results, warnings=(*results.warnings, str(error)))
    return results


def _runner(request: Request, limits: Limits) -> AbstractContextManager[Runner]:
    """Return the runner of the measurement; for a distributed stack it starts all processes.

    :raises InputError: if this process is part of a cluster that was started already.
    """
    from tfopt_core.workers.clusters.local import LocalCluster
    from tfopt_core.workers.fork import ForkRunner
    from tfopt_core.workers.spawn import SpawnRunner

    spawn = SpawnRunner(limits=limits)
    if cluster_of(request) is None:
        return ForkRunner(spawn)
    check_none_described(request.environment, "apply")
    # processes of a cluster are never forked, so their baseline is not forked either
    return nullcontext(LocalCluster(inner=spawn, spawn=spawn))
