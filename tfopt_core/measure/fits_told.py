"""The figures of a script's run, from what its fits took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cattrs import unstructure

from tfopt_core.hooks import Effect
from tfopt_core.measure.summarize import summarize
from tfopt_core.measure.usage import cpu_seconds, peak_device_bytes, peak_rss_bytes
from tfopt_core.training.job import Job
from tfopt_core.training.script.fitting import FitOfScript
from tfopt_core.training.script.running import ScriptEnd


def result_of(job: Job, fits: Sequence[FitOfScript], end: ScriptEnd) -> dict[str, Any]:
    """A `RunResult`'s figures as plain data.

    :param fits: in the order of their calls; one that is named in the recipe is judged alone.
    :raises TrainingDiverged: if a metric of a fit that is judged is no finite number.
    """
    asked = job.recipe.workload.fit
    told = [_told(fit, job) for fit in fits]
    judged = fits if asked is None else fits[asked - 1 : asked]
    return {
        "wall_seconds": sum(fit.outcome.wall_seconds for fit in judged),
        "peak_rss_bytes": peak_rss_bytes(),
        "peak_device_bytes": peak_device_bytes() if fits else None,
        "cpu_seconds": cpu_seconds(),
        "effects": {
            name: {"applied": effect.applied, "detail": effect.detail}
            for name, effect in _effects(judged).items()
        },
        "fits": told,
        "judged": None if asked is None else asked - 1,
        "exit_status": end.status,
        "diverged": next((str(fit.diverged) for fit in judged if fit.diverged), None),
    }


def _told(fit: FitOfScript, job: Job) -> dict[str, Any]:
    said = dict(unstructure(summarize(fit.outcome, job.recipe.measure.target)))
    return {**said, "name": fit.name, "wall_seconds": fit.outcome.wall_seconds}


def _effects(fits: Sequence[FitOfScript]) -> dict[str, Effect]:
    """Of all fits: a plugin took effect if it did in one of them; the last word is shown."""
    found: dict[str, Effect] = {}
    for fit in fits:
        for name, effect in fit.effects.items():
            if effect.applied or name not in found or not found[name].applied:
                found[name] = effect
    return found
