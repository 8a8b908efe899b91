"""Measure a recipe or a script, as `tfopt apply` and `tfopt_core.apply` do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.apply_options import ApplyOptions
from tfopt_core.app.command_request import make_request, seconds_of
from tfopt_core.app.first_contact import is_script, keep_outcome, look_at, prepared_for
from tfopt_core.diagnosis.draft import LeftOut, what_bounds
from tfopt_core.records.diagnosis import Diagnosed

if TYPE_CHECKING:
    from tfopt_core.app.view import View
    from tfopt_core.records.results import Results
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.spawn import Runner
    from tfopt_core.workers.supervise import Limits


@attrs.frozen(kw_only=True)
class NothingToMeasure:
    """A look at a script has found no plugin that is worth measuring; what `--json` writes then.

    :param bound: what bounds a step, in a sentence.
    :param left_out: what was proposed and does not stay, each with its reason.
    :param diagnosis: what the look has found, as `tfopt diagnose --json` writes it.
    """

    schema_version: int = 1
    script: str
    measured: bool = False
    bound: str
    left_out: tuple[LeftOut, ...] = ()
    diagnosis: Diagnosed


def conduct(options: ApplyOptions, view: View) -> Results | NothingToMeasure:
    """Measure, unless a look at a script finds nothing that is worth it.

    :param view: shows what is done.
    :raises InputError: for whatever is wrong with the recipe, the script or the options.
    :raises TfoptError: for what stands in the way of every run.
    """
    from tfopt_core.measurement.resume import resume
    from tfopt_core.measurement.session import measure
    from tfopt_core.store.database import Store, store_path
    from tfopt_core.workers.supervise import Limits

    limit = None if options.time_limit is None else seconds_of("--time-limit", options.time_limit)
    limits = Limits(total=limit)
    target, contact = options.target, None
    if is_script(target):
        contact = look_at(options, limits, view)
        if contact.prepared is None:
            draft = contact.draft
            return NothingToMeasure(
                script=target, bound=what_bounds(draft.diagnosed), left_out=draft.left_out,
                diagnosis=draft.diagnosed,
            )  # fmt: skip
        target = str(contact.path)
    request, folder = make_request(
        target, options.changes() if contact is None else options.overrides, compares=True,
        save_to=options.save_to, json_path=options.json_path, debug=options.debug,
    )  # fmt: skip
    with (
        Store(store_path(folder.parent)) as store,
        view.measuring() as observer,
        _runner(request, limits) as runner,
    ):
        if options.resuming:
            return resume(request, runner=runner, store=store, observer=observer)
        if contact is None:
            return measure(request, runner=runner, store=store, observer=observer)
        prepared, request = prepared_for(contact, request)
        results = measure(
            request, runner=runner, store=store, observer=observer,
            prepared_before=(prepared, request),
            # a stack that rounds otherwise cannot be certified: in a first look the time goes to
            # the pairs
            certify=not {plugin.math for plugin in prepared.plugins} & {"rounding", "changes"},
        )  # fmt: skip
    keep_outcome(contact, results)
    return results


def _runner(request: Request, limits: Limits) -> AbstractContextManager[Runner]:
    """Return the runner of the measurement; it starts all processes of a stack over several.

    :raises InputError: if somebody else has started a cluster that this is a part of.
    """
    from tfopt_core.app.clustered import check_none_described, cluster_of
    from tfopt_core.workers.clusters.local import LocalCluster
    from tfopt_core.workers.fork import ForkRunner
    from tfopt_core.workers.spawn import SpawnRunner

    spawn = SpawnRunner(limits=limits)
    if cluster_of(request) is None:
        return ForkRunner(spawn)
    check_none_described(request.environment, "apply")
    # processes of a cluster are never forked: so neither is what they are compared with
    return nullcontext(LocalCluster(inner=spawn, spawn=spawn))
