"""The dry build with which every measurement begins, and what `tfopt plan` shows."""

from __future__ import annotations

from tfopt_core.errors import RecipeError, did_you_mean
from tfopt_core.records.dry_build import Prepared
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request, with_prepared
from tfopt_core.workers.spawn import Runner


def prepare(
    request: Request,
    runner: Runner,
    *,
    estimate: bool = False,
    quick: bool = False,
    follows: bool = False,
) -> tuple[Prepared, Request]:
    """Resolve the stack and build it dry: what `tfopt plan` shows, and how a measurement begins.

    :param estimate: time some steps without the stack too, for what a training will take.
    :param quick: time some steps with the stack too.
    :param follows: whether the runner gives the task to the process of an earlier one.
    :returns: what was found, and the request with resolved plugins on the machine as TensorFlow
        sees it.
    :raises RecipeError: for a workload that cannot be built, and for a metric of quality or a
        target that the training does not report.
    :raises InputError: for what a plugin refuses.
    :raises PreparationFailed: for what would fail in every run.
    :raises CannotShare: if that process cannot take it.
    """
    processes = Processes(request, runner)
    prepared = processes.prepare(estimate=estimate, quick=quick, follows=follows)
    check_metrics(request, prepared)
    return prepared, with_prepared(request, prepared)


def check_metrics(request: Request, prepared: Prepared) -> None:
    """Check that the training reports the metrics that the recipe names.

    :raises RecipeError: if it does not, or nobody knows which way a metric is better.
    """
    measure, reading = request.recipe.measure, request.reading
    if prepared.own_loop:
        return  # it reports none, and a recipe that names one is refused
    known = ", ".join(prepared.metrics)
    problems = []
    for path, metric in (
        # of a script whose metrics nobody knows to be better high or low, none is judged by
        ("measure.quality.metric", prepared.quality_metric or None),
        ("measure.target.metric", measure.target.metric if measure.target else None),
    ):
        if metric is not None and metric not in prepared.metrics:
            hint = did_you_mean(metric, prepared.metrics)
            mend = f"{hint} it reports: {known}" if hint else f"it reports: {known}"
            message = f'the training reports no "{metric}"'
            problems.append(reading.problem(path, message, mend))
    if not problems and prepared.quality_metric and prepared.quality_direction is None:
        problems.append(
            reading.problem(
                "measure.quality.direction",
                f'whether "{prepared.quality_metric}" is better high or low is not known',
                'add direction = "max" or "min"',
            )
        )
    if problems:
        raise RecipeError(problems)
