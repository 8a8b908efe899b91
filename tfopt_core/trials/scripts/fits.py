"""Compute the figures of a script's run from the timings of its fits."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.errors import WorkloadError
from tfopt_core.records.run import RunReport
from tfopt_core.training.job import Job
from tfopt_core.training.scripts.fitting import FitOfScript, effects_of
from tfopt_core.training.scripts.running import ScriptEnd
from tfopt_core.workers.telemetry import cpu_seconds, peak_device_bytes, peak_rss_bytes


def report_of(job: Job, fits: Sequence[FitOfScript], end: ScriptEnd) -> RunReport:
    """Return what is observed of a run with these fits.

    :param fits: in the order of their calls; if the recipe names a fit, it alone is judged.
    :raises WorkloadError: if the fit that the recipe names did not come.
    """
    judged_number = job.recipe.workload.fit
    numbers = [fit.number for fit in fits]
    if judged_number is not None and judged_number not in numbers:
        before = f"; {end.error}" if end.error is not None else ""
        raise WorkloadError(
            f"fit = {judged_number} is judged, and in this run the script trained by "
            f"{_calls(len(fits))} of fit only{before}"
        )
    judged = [fit for fit in fits if judged_number in (None, fit.number)]
    return RunReport(
        wall_seconds=sum(fit.outcome.wall_seconds for fit in judged),
        peak_rss_bytes=peak_rss_bytes(),
        peak_device_bytes=peak_device_bytes() if fits else None,
        cpu_seconds=cpu_seconds(),
        effects=effects_of(judged),
        fits=tuple(fit.outcome for fit in fits),
        judged=None if judged_number is None else numbers.index(judged_number),
        exit_status=end.status,
        diverged=next((str(fit.diverged) for fit in judged if fit.diverged), None),
    )


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"
