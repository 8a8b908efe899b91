"""Build the results of a measurement from its runs: verdict, attribution, warnings, advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import attrs

from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.measurement.after_fits import ends_in_words, without_early_ends
from tfopt_core.measurement.pace import round_seconds as seconds_of_round
from tfopt_core.measurement.schedule import baseline_and_full, leave_one_out
from tfopt_core.measurement.state import MeasurementState
from tfopt_core.recipe import Recipe
from tfopt_core.recipe.writing import text_of
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import Addition, Results, RunResult
from tfopt_core.records.variants import FULL, Contrast
from tfopt_core.statistics.disturbance import seen_in_words
from tfopt_core.statistics.figures import not_projected
from tfopt_core.statistics.intervals import LOOKS, MINIMUM_PAIRS
from tfopt_core.statistics.judgement import Judgement, stack_equivalence
from tfopt_core.statistics.pairs import pairs_of
from tfopt_core.statistics.ratios import ratios
from tfopt_core.statistics.timing.cutting import ENOUGH
from tfopt_core.statistics.timing.retraces import retraced_runs
from tfopt_core.statistics.verdicts.addition import judge_addition
from tfopt_core.statistics.verdicts.advice import next_steps
from tfopt_core.statistics.verdicts.attribution import attribute
from tfopt_core.statistics.verdicts.fitting import fits_into_memory
from tfopt_core.statistics.verdicts.observations import observations
from tfopt_core.statistics.verdicts.stopping import rounds_in_a_row
from tfopt_core.statistics.verdicts.verdict import compare
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.training.runtime import recorded_environment
from tfopt_core.trials.request import Request
from tfopt_core.trials.run_files import MODEL_FILE, run_folder
from tfopt_core.workers.spawn import FELL_BACK

# How many of the files that a script has written are named.
WRITTEN_SHOWN = 6

Stop = Literal["done", "interrupted", "budget"]


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
        sequential=measure.pairs == "auto",
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
    stop: Stop,
    planned: int,
    round_seconds: float | None,
) -> Results:
    """Judge the runs, attribute the gain and return the results.

    :param contrasts: the contrasts that were run to isolate plugins.
    :param seconds: how long the measurement took, set-up included.
    :param stop: why there are no more runs.
    :param planned: how many rounds were planned at the last look.
    :param round_seconds: the seconds of another round, None without a run.
    """
    all_runs, stop_of_verdict = without_early_ends(runs), stop
    runs = all_runs
    if state.settled_after is not None:
        # the rounds after these are of the second contrast alone
        runs = tuple(run for run in all_runs if run.round < state.settled_after)
        stop_of_verdict, planned = "done", state.settled_after
    recipe, judgement = request.recipe, judgement_of(request, prepared, state, runs)
    pairs = len(pairs_of(runs))
    fixed_pairs = None if recipe.measure.pairs == "auto" else recipe.measure.pairs
    judged = judged_runs(runs, fixed_pairs, stop_of_verdict, planned)
    # a side that does not fit takes no look: each of its runs shows it
    if stop == "budget" and fits_into_memory(runs, judgement) is not None:
        judged = tuple(runs)
    # failed runs are reported, whether their round is judged or not
    failed = tuple(run for run in all_runs if run.status == "failed" and run not in (judged or ()))
    if judged is None:
        why = _why_too_few(request, prepared, pairs, stop, round_seconds)
        comparison = attrs.evolve(compare(failed, judgement, why_too_few=why), pairs=pairs)
        judged = ()
    else:
        comparison = compare((*judged, *failed), judgement, round_seconds)
    rows = attribute(judged, contrasts, judgement)
    if state.settled_after is None:
        addition = _addition((*judged, *failed), judgement, state)
    else:
        addition = _addition(all_runs, judgement_of(request, prepared, state, all_runs), state)
    return Results(
        id=id_,
        created_at=created_at,
        recipe=recipe.name,
        recipe_sha256=recipe.sha256(),
        recipe_toml=text_of(recipe),
        resolved=prepared.resolved,
        machine=request.machine.to_dict(),
        environment={**prepared.versions, **recorded_environment(request.environment)},
        runs=all_runs,
        comparison=comparison,
        attribution=rows,
        ratios=ratios(judged, judgement) if comparison.speedup is not None else (),
        workload=recipe.workload.label,
        baseline=prepared.baseline,
        target=_target_in_words(recipe),
        setup_seconds=prepared.seconds,
        seconds=seconds,
        interrupted=stop == "interrupted",
        observations=observations(judged, judgement),
        warnings=(*prepared.warnings, *run_warnings(all_runs)),
        next_steps=next_steps(
            runs, comparison, rows, fixed_pairs,
            None if contrasts else isolating_seconds(request, runs, max(pairs, MINIMUM_PAIRS)),
            budget_ended=stop == "budget", addition=addition,
        ),
        length=state.length,
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
        why_ended=added.why_ended,
    )  # fmt: skip


def judged_runs(
    runs: Sequence[RunResult], fixed_pairs: int | None, stop: Stop, planned: int
) -> tuple[RunResult, ...] | None:
    """Return the runs that may be judged, None if none may.

    Stopping at figures that one likes must not give a verdict: after a stop only the last look
    that was reached counts, or the fixed number of pairs if it was reached.

    :param fixed_pairs: the fixed number of pairs, None if looks decide.
    :param planned: how many rounds were planned at the last look.
    """
    rounds = planned
    if stop != "done":
        complete = rounds_in_a_row(runs)
        looks = LOOKS if fixed_pairs is None else (fixed_pairs,)
        rounds = max((look for look in looks if look <= complete), default=0)
    return tuple(run for run in runs if run.round < rounds) if rounds else None


def _why_too_few(
    request: Request, prepared: Prepared, pairs: int, stop: Stop, round_seconds: float | None
) -> str:
    """Return why there are too few pairs for a verdict, and which budget would bring one."""
    measure = request.recipe.measure
    first_look = LOOKS[0] if measure.pairs == "auto" else measure.pairs
    if stop == "interrupted":
        complete = "1 complete pair" if pairs == 1 else f"{pairs} complete pairs"
        return f"interrupted after {complete}, and the first look comes at {first_look}"
    needed = prepared.seconds + LOOKS[0] * (round_seconds or 0.0)
    if needed <= measure.budget_seconds:
        return (
            f"{pairs} complete pairs when the budget of "
            f"{seconds_in_words(measure.budget_seconds)} was used up, and it takes {LOOKS[0]}"
        )
    budget = math.ceil(1.2 * needed / request.budget_share / 60)
    both = " for the search too" if request.budget_share < 1 else ""
    return (
        f"four pairs take about {seconds_in_words(needed)} and do not fit the budget "
        f"of {seconds_in_words(measure.budget_seconds)}; --budget {budget}m would do{both}"
    )


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
            "about the steps alone, and a larger --budget lets each run go on for longer"
        )
    errors = [fit.step_error or 0.0 for run in runs for fit in run.timed_fits if not fit.complete]
    vague = [error for error in errors if error >= ENOUGH]
    if vague:
        warnings.append(
            f"{len(vague)} of {len(runs)} runs reached their limit of timed steps before the mean "
            f"step was known to {ENOUGH:.0%}: its standard error is {max(vague):.1%} at worst"
        )
    return warnings


def isolating_seconds(request: Request, runs: Sequence[RunResult], pairs: int) -> float | None:
    """Return about how long isolating each plugin takes, None if there is nothing to isolate."""
    extras, _ = leave_one_out(request.plugins)
    if len(request.plugins) < 2 or not any(run.process_seconds for run in runs):
        return None
    return pairs * seconds_of_round(runs, [*baseline_and_full(request.plugins), *extras])


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
