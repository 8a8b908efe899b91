"""Build the results of a measurement from its runs: verdict, attribution, warnings, advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.measurement.schedule import leave_one_out
from tfopt_core.measurement.state import MeasurementState
from tfopt_core.recipe import Recipe
from tfopt_core.recipe.writing import text_of
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import Addition, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL, Contrast
from tfopt_core.statistics.advice import next_steps
from tfopt_core.statistics.contrasts import attribute, judge_addition
from tfopt_core.statistics.figures import not_projected, pairs_of, ratios
from tfopt_core.statistics.fit_figures import retraced_runs
from tfopt_core.statistics.judgement import Judgement, stack_equivalence
from tfopt_core.statistics.verdict import compare
from tfopt_core.training.runtime import recorded_environment
from tfopt_core.trials.outcomes import MODEL_FILE, run_folder
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import FELL_BACK
from tfopt_core.workers.telemetry import seen_in_words

# How many of the files that a script has written are named.
WRITTEN_SHOWN = 6


def judgement_of(
    request: Request, prepared: Prepared, state: MeasurementState, runs: Sequence[RunResult]
) -> Judgement:
    """Return the rules by which the runs are judged, from recipe, dry build and state."""
    measure = request.recipe.measure
    return Judgement(
        metric=prepared.quality_metric,
        direction="max" if prepared.quality_direction == "max" else "min",
        tolerance=measure.quality.tolerance if measure.quality else None,
        examples=prepared.validation_examples,
        equivalence=stack_equivalence([plugin.equivalence for plugin in prepared.plugins]),
        target=measure.target,
        projected=any(run.ok and not run.complete for run in runs),
        per_step=any(run.ok and not_projected(run) is not None for run in runs),
        certificate=state.certificate,
        objective=measure.objective,
        batch_sizes=(prepared.baseline_batch_size, prepared.batch_size),
    )


def conclude(
    *,
    request: Request,
    prepared: Prepared,
    state: MeasurementState,
    id_: str,
    created_at: str,
    runs: Sequence[RunResult],
    contrasts: Sequence[Contrast],
    seconds: float,
    interrupted: bool,
    group_seconds: float | None,
) -> Results:
    """Judge the runs, attribute the gain and return the results.

    Stopping at figures that one likes must not give a verdict: after an interruption there is none.

    :param contrasts: the contrasts that were run to isolate plugins.
    :param seconds: how long the measurement took, set-up included.
    :param interrupted: whether Ctrl-C ended it before the last group.
    :param group_seconds: the seconds of another group, None without a run.
    """
    runs = without_early_ends(runs)
    recipe, judgement = request.recipe, judgement_of(request, prepared, state, runs)
    pairs, judged = len(pairs_of(runs)), runs
    if interrupted:
        judged = tuple(run for run in runs if run.status == "failed")
        why = f"interrupted after {pairs} of {state.pairs} pairs; --resume goes on"
        comparison = attrs.evolve(compare(judged, judgement, why_too_few=why), pairs=pairs)
    else:
        comparison = compare(runs, judgement, group_seconds)
    rows = attribute(judged, contrasts, judgement)
    addition = _addition(judged, judgement, state)
    return Results(
        id=id_,
        created_at=created_at,
        recipe=recipe.name,
        recipe_sha256=recipe.sha256(),
        recipe_toml=text_of(recipe),
        resolved=prepared.resolved,
        machine=request.machine.to_dict(),
        environment={**prepared.versions, **recorded_environment(request.environment)},
        runs=runs,
        comparison=comparison,
        attribution=rows,
        ratios=ratios(judged, judgement) if comparison.speedup is not None else (),
        workload=recipe.workload.label,
        baseline=prepared.baseline,
        target=_target_in_words(recipe),
        setup_seconds=prepared.seconds,
        seconds=seconds,
        interrupted=interrupted,
        warnings=tuple(
            filter(None, (*prepared.warnings, state.one_after_other, *run_warnings(runs)))
        ),
        next_steps=next_steps(
            runs, comparison, rows, state.pairs,
            None if contrasts else _isolating_seconds(request, state.pairs, group_seconds),
            addition=addition,
        ),
        warm_seconds=state.warm_seconds,
        resumed=state.resumed,
        addition=addition,
    )  # fmt: skip


def _addition(
    runs: Sequence[RunResult], judgement: Judgement, state: MeasurementState
) -> Addition | None:
    """Return the second contrast, None if there is none."""
    added = state.added
    if added is None:
        return None
    return judge_addition(
        runs, judgement, variant=added.variant, additions=added.additions,
        resolved=added.resolved, equivalence=added.equivalence, certificate=added.certificate,
    )  # fmt: skip


def run_warnings(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return warnings about the circumstances of the runs."""
    warnings = [seen_in_words([run for run in runs if run.ok])]
    warnings += _of_cut_runs([run for run in runs if run.ok])
    warnings += retraced_runs([run for run in runs if run.ok])
    fell_back = sum(run.started == FELL_BACK for run in runs)
    if fell_back:
        warnings.append(
            f"{fell_back} of {len(runs)} runs were started anew because forking failed here: the "
            "fork server or a fork of it did not start, or could not mount the script's private "
            "folder"
        )
    warnings += dict.fromkeys(note for run in runs for note in run.notes)
    warnings += ends_in_words(runs)
    written = dict.fromkeys(file for run in runs for file in run.written)
    if written:
        shown = ", ".join(list(written)[:WRITTEN_SHOWN])
        more = f", and {len(written) - WRITTEN_SHOWN} more" if len(written) > WRITTEN_SHOWN else ""
        warnings.append(
            f"the script writes files; each run wrote into a private folder, which is "
            f"gone: {shown}{more}"
        )
    return tuple(warning for warning in warnings if warning is not None)


def _of_cut_runs(runs: Sequence[RunResult]) -> list[str]:
    """Return warnings about what runs that were cut short leave open."""
    warnings = []
    whys = [why for run in runs if (why := not_projected(run)) is not None]
    if whys:
        warnings.append(
            f"no total is projected: {whys[0]} ({len(whys)} of {len(runs)} runs); the verdict is "
            "about the steps alone, and --full trains each run to its end"
        )
    return warnings


def _isolating_seconds(request: Request, pairs: int, group_seconds: float | None) -> float | None:
    """Return about how long isolating each plugin takes, None if there is nothing to isolate."""
    extras, _ = leave_one_out(request.plugins)
    if not extras or group_seconds is None:
        return None
    return pairs * group_seconds * (2 + len(extras)) / 2


def save_best(
    request: Request, judgement: Judgement, runs: Sequence[RunResult], *, keep: bool = False
) -> str | None:
    """Copy the model of the full variant's best run to the path that the user asked for.

    :param keep: leave the models of all runs in place, since the measurement may be resumed.
    :returns: the path and the run, in words; None if there is nothing to save.
    :raises InputError: if it cannot be written, naming the place of the model.
    """
    target = request.save_to
    folders = {
        run.id: run_folder(request.folder, run.round, run.position, run.variant) for run in runs
    }
    # runs before a resume may have kept no model, and a run cut short has no trained model
    candidates = [
        run
        for run in runs
        if run.ok
        and run.variant == FULL
        and run.complete
        and (folders[run.id] / MODEL_FILE).exists()
    ]
    if target is None:
        return None
    if not candidates:
        raise InputError(f'no model was saved to "{target}": no run with the stack ended with one')
    metric, sign = judgement.metric, 1 if judgement.direction == "max" else -1
    worst = -sign * float("inf")
    best = max(candidates, key=lambda run: sign * _value(run, metric, worst))
    replace_file(folders[best.id] / MODEL_FILE, target)
    for run in candidates if not keep else ():
        (folders[run.id] / MODEL_FILE).unlink(missing_ok=True)
    value = best.value_of(metric)
    quality = "" if value is None else f", {metric} {value:.4f}"
    return f"{target} (run {best.id}{quality})"


def _target_in_words(recipe: Recipe) -> str | None:
    target = recipe.measure.target
    if target is None:
        return None
    if target.at_least is not None:
        return f"{target.metric} >= {target.at_least:g}"
    return f"{target.metric} <= {target.at_most:g}"


def _value(run: RunResult, metric: str, missing: float) -> float:
    value = run.value_of(metric)
    return missing if value is None else value


def without_early_ends(runs: Sequence[RunResult]) -> tuple[RunResult, ...]:
    """Return the runs, with those marked failed whose script made fewer fits than other runs.

    If the recipe names no fit, a run cannot know that more fits would have followed.
    """
    most = max((len(run.fits) for run in runs if run.ok), default=0)
    return tuple(
        attrs.evolve(
            run,
            status="failed",
            error=f"{run.after_fits} (after fit {len(run.fits)}; other runs made {most})",
        )
        if run.ok and run.after_fits is not None and run.judged is None and len(run.fits) < most
        else run
        for run in runs
    )


def ends_in_words(runs: Sequence[RunResult]) -> Iterator[str]:
    """Yield warnings about scripts that did not end well after their fits."""
    counted = [run for run in runs if run.ok]
    ended = [run for run in counted if run.after_fits is not None]
    if not ended:
        return
    yield (
        f"in {len(ended)} of {len(counted)} runs the script did not end well after "
        f"{ended[0].fit.name}: {ended[0].after_fits}; the times of its fits count, and what it "
        "would have trained after that is not in them"
    )
    if any(not fit.complete for run in ended for fit in run.fits):
        yield "runs were cut short, so that may not happen in a whole training"
    if all(run.variant != BASELINE for run in ended):
        yield (
            "that happened with plugins only: see whether the script works with them, by "
            "`tfopt train` with this recipe"
        )
