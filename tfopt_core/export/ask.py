"""Export a training in a separate process, which first resolves settings of "auto"."""

from __future__ import annotations

from tfopt_core.errors import RecipeError
from tfopt_core.records.program import Program
from tfopt_core.trials.preparation import check_metrics
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner, SpawnRunner

EXPORTED = "tfopt_core.export.look:exported"
EXPORTED_SCRIPT = "tfopt_core.export.script_look:exported_script"
NO_FIT = "plain code is written for calls of fit, and this script trains in a loop of its own"


def write_down(request: Request, runner: Runner | None = None) -> Program:
    """Return a program that trains this request as `tfopt train` does, with its seed or 1.

    :raises: what `prepare` raises, and a RecipeError for a workload that has no plain form.
    """
    if request.recipe.workload.has_own_loop:
        problem = request.reading.problem("workload.loop", NO_FIT, "`tfopt train` runs it")
        raise RecipeError([problem])
    processes = Processes(request, runner or SpawnRunner())
    exported = processes.export(EXPORTED, EXPORTED_SCRIPT)
    check_metrics(request, exported.prepared)
    return exported.program
