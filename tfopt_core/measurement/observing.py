"""Make the extra, untimed run that the observers of a recipe join."""

from __future__ import annotations

import attrs

from tfopt_core.measurement import progress
from tfopt_core.measurement.progress import Observer
from tfopt_core.records.results import Results
from tfopt_core.records.variants import ScheduledRun, Variant
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import OBSERVED, Request
from tfopt_core.workers.spawn import Runner


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
