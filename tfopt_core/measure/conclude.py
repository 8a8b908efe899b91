"""From the runs of a measurement to its results."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.measure.advice import next_steps
from tfopt_core.measure.attribute import attribute, unattributed
from tfopt_core.measure.judgement import Judgement, stack_math
from tfopt_core.measure.observations import observations
from tfopt_core.measure.pairs import pairs_of
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.processes import MODEL_FILE, replace_file, run_folder
from tfopt_core.measure.request import Request
from tfopt_core.measure.schedule import FULL, Contrast
from tfopt_core.measure.statistics import LOOKS
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
    """Judge the runs and attribute the gain.

    :param contrasts: those that were run to isolate plugins.
    :param seconds: how long the runs took together.
    """
    recipe, judgement = request.recipe, judgement_of(request, prepared)
    pairs = len(pairs_of(runs))
    asked = None if recipe.measure.pairs == "auto" else recipe.measure.pairs
    judged = judged_runs(runs, asked, interrupted=interrupted)
    if isinstance(judged, str):
        comparison = attrs.evolve(compare((), judgement), pairs=pairs, statement=judged)
        judged = ()
    else:
        comparison = compare(judged, judgement, seconds / pairs if pairs else None)
    rows = attribute(
        judged, list(prepared.resolved), [c for c in contrasts if c.with_ == FULL],
        [c for c in contrasts if c.with_ != FULL], judgement,
    )  # fmt: skip
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
        unattributed=unattributed(judged, rows, judgement),
        workload=recipe.workload.use or recipe.workload.factory or "",
        baseline=prepared.baseline,
        target=_target_in_words(recipe),
        setup_seconds=prepared.seconds,
        seconds=prepared.seconds + seconds,
        interrupted=interrupted,
        observations=observations(judged, judgement),
        warnings=prepared.warnings,
        next_steps=next_steps(runs, comparison, rows, asked),
    )


def judged_runs(
    runs: Sequence[RunResult], asked: int | None, *, interrupted: bool
) -> tuple[RunResult, ...] | str:
    """The runs that may be judged, or why none may.

    Whoever stops when he likes the figures must not get a verdict by it: after an interruption
    only the last look counts that was reached, or the fixed number of pairs if it was.

    :param asked: the fixed number of pairs, None where looks decide.
    """
    if not interrupted:
        return tuple(runs)
    pairs = pairs_of(runs)
    looks = LOOKS if asked is None else (asked,)
    look = max((look for look in looks if look <= len(pairs)), default=None)
    if look is None:
        return (
            f"no verdict: interrupted after {len(pairs)} complete pairs, and the first look comes "
            f"at {looks[0]}"
        )
    last_round = pairs[look - 1].without.round
    return tuple(run for run in runs if run.round <= last_round)


def save_best(request: Request, prepared: Prepared, runs: Sequence[RunResult]) -> str | None:
    """Copy the model of the full variant's best run to where it was asked for.

    :returns: where it is and which run's it is, in words; None if there is nothing to save.
    :raises InputError: if it cannot be written; says where the model lies instead.
    """
    target = request.save_to
    candidates = [run for run in runs if run.ok and run.variant == FULL]
    if target is None or not candidates:
        return None
    judgement = judgement_of(request, prepared)
    metric, sign = judgement.metric, 1 if judgement.direction == "max" else -1
    worst = -sign * float("inf")
    best = max(candidates, key=lambda run: sign * run.fit.metrics.get(metric, worst))
    folders = {
        run.id: run_folder(request.folder, run.round, run.position, run.variant)
        for run in candidates
    }
    replace_file(folders[best.id] / MODEL_FILE, target)
    for folder in folders.values():
        (folder / MODEL_FILE).unlink(missing_ok=True)
    value = best.fit.metrics.get(metric)
    said = "" if value is None else f", {metric} {value:.4f}"
    return f"{target} (run {best.id}{said})"


def _target_in_words(recipe: Recipe) -> str | None:
    target = recipe.measure.target
    if target is None:
        return None
    if target.at_least is not None:
        return f"{target.metric} >= {target.at_least:g}"
    return f"{target.metric} <= {target.at_most:g}"
