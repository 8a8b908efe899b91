"""From the runs of a measurement to its results."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.measure.advice import next_steps
from tfopt_core.measure.attribute import attribute, unattributed
from tfopt_core.measure.judgement import Judgement, stack_math
from tfopt_core.measure.observations import observations
from tfopt_core.measure.pairs import pairs_of
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.processes import replace_file, run_folder
from tfopt_core.measure.request import Request
from tfopt_core.measure.schedule import FULL, Contrast
from tfopt_core.measure.verdict import compare
from tfopt_core.recipe import Recipe
from tfopt_core.store.results import Results, RunResult
from tfopt_core.training.runtime import recorded_environment


def judgement_of(request: Request, prepared: Prepared) -> Judgement:
    """The rules by which the runs are judged, from the recipe and the dry build."""
    measure = request.recipe.measure
    return Judgement(
        metric=prepared.quality_metric,
        direction="max" if prepared.quality_direction == "max" else "min",
        tolerance=measure.quality.tolerance if measure.quality else None,
        examples=prepared.validation_examples,
        math=stack_math([plugin.math for plugin in prepared.plugins]),
        target=measure.target,
        sequential=measure.pairs == "auto",
    )


def conclude(
    *,
    request: Request,
    prepared: Prepared,
    id_: str,
    created_at: str,
    runs: Sequence[RunResult],
    contrasts: Sequence[Contrast],
    seconds: float,
    interrupted: bool,
) -> Results:
    """Judge the runs, attribute the gain, and keep the best model if one was asked for.

    :param contrasts: those that were run to isolate plugins.
    :param seconds: how long the runs took together.
    """
    recipe, judgement = request.recipe, judgement_of(request, prepared)
    pairs = len(pairs_of(runs))
    comparison = compare(runs, judgement, seconds / pairs if pairs else None)
    rows = attribute(
        runs, list(prepared.resolved), [c for c in contrasts if c.with_ == FULL],
        [c for c in contrasts if c.with_ != FULL], judgement,
    )  # fmt: skip
    asked = recipe.measure.pairs
    return Results(
        id=id_,
        created_at=created_at,
        recipe=recipe.name,
        recipe_sha256=recipe.sha256(),
        resolved=prepared.resolved,
        machine=request.machine.to_dict(),
        environment={**prepared.versions, **recorded_environment(request.environment)},
        runs=tuple(runs),
        comparison=comparison,
        attribution=rows,
        unattributed=unattributed(runs, rows, judgement),
        workload=recipe.workload.use or recipe.workload.factory or "",
        baseline=prepared.baseline,
        target=_target_in_words(recipe),
        setup_seconds=prepared.seconds,
        seconds=prepared.seconds + seconds,
        interrupted=interrupted,
        observations=observations(runs, judgement),
        warnings=prepared.warnings,
        next_steps=next_steps(runs, comparison, rows, None if asked == "auto" else asked),
        saved_model=_save_best(request, judgement, runs),
    )


def _save_best(request: Request, judgement: Judgement, runs: Sequence[RunResult]) -> str | None:
    """Copy the model of the full variant's best run to where it was asked for."""
    target = request.save_to
    candidates = [run for run in runs if run.ok and run.variant == FULL]
    if target is None or not candidates:
        return None
    metric, sign = judgement.metric, 1 if judgement.direction == "max" else -1
    worst = -sign * float("inf")
    best = max(candidates, key=lambda run: sign * run.fit.metrics.get(metric, worst))
    folder = run_folder(request.folder, best.round, best.position, best.variant)
    replace_file(folder / "model.keras", target)
    return f"{target} (run {best.id}, {metric} {best.fit.metrics[metric]:.4f})"


def _target_in_words(recipe: Recipe) -> str | None:
    target = recipe.measure.target
    if target is None:
        return None
    if target.at_least is not None:
        return f"{target.metric} >= {target.at_least:g}"
    return f"{target.metric} <= {target.at_most:g}"
