"""Build the results of a measurement from its runs: verdict, attribution, warnings, advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.measurement.groups import Groups
from tfopt_core.measurement.plan import leave_one_out
from tfopt_core.recipe.model import Recipe
from tfopt_core.recipe.writing import text_of
from tfopt_core.statistics.contrasts import attribute, judge_addition
from tfopt_core.statistics.figures import not_projected, ratios
from tfopt_core.statistics.fit_figures import retraced_runs
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.statistics.results import (
    Addition,
    Attribution,
    Comparison,
    MemoryVerdict,
    QualityVerdict,
    Results,
    Verdict,
)
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult, pairs_of
from tfopt_core.statistics.verdict import compare
from tfopt_core.trials.outcomes import MODEL_FILE, run_folder
from tfopt_core.workers.spawn import FELL_BACK
from tfopt_core.workers.telemetry import seen_in_words

# How many of the files that a script has written are named.
WRITTEN_SHOWN = 6
# What isolating each plugin shows, by the verdict on the stack.
ISOLATE = {
    Verdict.FASTER: "see which plugin earns it",
    Verdict.STEPS_FASTER: "see which plugin earns it",
    Verdict.QUALITY_OPEN: "see which plugin earns it",
    Verdict.WORSE: "see which plugin earns it",
    Verdict.SLOWER: "see which plugin harms",
    Verdict.STEPS_SLOWER: "see which plugin harms",
    Verdict.NO_DIFFERENCE: "see whether one plugin harms what another gains",
}


def conclude(groups: Groups) -> Results:
    """Judge the runs, attribute the gain and return the results.

    Stopping at figures that one likes must not give a verdict: after an interruption there is none.
    """
    request, prepared, state = groups.request, groups.prepared, groups.state
    runs, recipe, contrasts = without_early_ends(groups.runs), request.recipe, groups.contrasts
    judgement = groups.judgement_of(runs)
    group_seconds, interrupted = groups.group_seconds, groups.interrupted
    pairs, judged = len(pairs_of(runs)), runs
    if interrupted:
        judged = [run for run in runs if run.status == "failed"]
        why = f"interrupted after {pairs} of {state.pairs} pairs; --resume goes on"
        comparison = attrs.evolve(compare(judged, judgement, why_too_few=why), pairs=pairs)
    else:
        comparison = compare(runs, judgement, group_seconds)
    rows = attribute(judged, contrasts, judgement)
    addition = state.added
    if addition is not None:
        certificate = state.certificates.get(addition.variant)
        addition = judge_addition(judged, judgement, addition, certificate)
    extras = [] if contrasts else leave_one_out(request.plugins)[0]
    isolating = None
    if extras and group_seconds is not None:
        isolating = state.pairs * group_seconds * (2 + len(extras)) / 2
    return Results(
        id=request.folder.name,
        created_at=groups.created_at,
        recipe=recipe.name,
        recipe_sha256=recipe.sha256(),
        recipe_toml=text_of(recipe),
        resolved=prepared.resolved,
        machine=request.machine.to_dict(),
        environment={**prepared.versions, **request.recorded_environment},
        runs=tuple(runs),
        comparison=comparison,
        attribution=rows,
        ratios=ratios(judged) if comparison.speedup is not None else (),
        workload=recipe.workload.label,
        baseline=prepared.baseline,
        target=_target_in_words(recipe),
        setup_seconds=prepared.seconds,
        seconds=groups.seconds,
        interrupted=interrupted,
        warnings=tuple(
            filter(None, (*prepared.warnings, state.one_after_other, *run_warnings(runs)))
        ),
        next_steps=next_steps(runs, comparison, rows, state.pairs, isolating, addition=addition),
        warm_seconds=state.warm_seconds,
        resumed=state.resumed,
        addition=addition,
        findings=groups.prepared.findings,
    )  # fmt: skip


def run_warnings(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return warnings about the circumstances of the runs."""
    good = [run for run in runs if run.ok]
    warnings = [seen_in_words(good)]
    if whys := [why for run in good if (why := not_projected(run)) is not None]:
        warnings.append(
            f"steps alone are judged (--full: whole trainings), as {whys[0]}: "
            f"{len(whys)} of {len(good)} runs"
        )
    warnings += retraced_runs(good)
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


def save_best(groups: Groups, runs: Sequence[RunResult]) -> str | None:
    """Copy the model of the full variant's best run to the path that the user asked for.

    :returns: the path and the run, in words; None if there is nothing to save.
    :raises InputError: if it cannot be written, naming the place of the model.
    """
    request, judgement, target = groups.request, groups.judgement, groups.request.save_to
    if target is None:
        return None
    metric, sign = judgement.metric, 1 if judgement.direction == "max" else -1

    def model_of(run: RunResult) -> Path:
        return run_folder(request.folder, run.round, run.position, run.variant) / MODEL_FILE

    def goodness(run: RunResult) -> float:
        value = run.value_of(metric)
        return -math.inf if value is None else sign * value

    # runs before a resume may have kept no model, and a run cut short has no trained model
    trained = [run for run in runs if run.ok and run.variant == FULL and run.complete]
    candidates = [run for run in trained if model_of(run).exists()]
    if not candidates:
        raise InputError(f'no model was saved to "{target}": no run with the stack ended with one')
    best = max(candidates, key=goodness)
    replace_file(model_of(best), target)
    for run in () if groups.interrupted else candidates:  # it may be resumed
        model_of(run).unlink(missing_ok=True)
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


def without_early_ends(runs: Sequence[RunResult]) -> list[RunResult]:
    """Return the runs, with those marked failed whose script made fewer fits than other runs.

    If the recipe names no fit, a run cannot know that more fits would have followed.
    """
    most = max((len(run.fits) for run in runs if run.ok), default=0)
    return [
        attrs.evolve(
            run,
            status="failed",
            error=f"{run.after_fits} (after fit {len(run.fits)}; other runs made {most})",
        )
        if run.ok and run.after_fits is not None and run.judged is None and len(run.fits) < most
        else run
        for run in runs
    ]


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


def next_steps(
    runs: Sequence[RunResult],
    comparison: Comparison,
    attribution: Sequence[Attribution],
    pairs: int,
    isolating_seconds: float | None = None,
    *,
    addition: Addition | None = None,
) -> tuple[str, ...]:
    """Return short imperative sentences, the most useful first.

    :param pairs: the number of pairs that was planned.
    :param isolating_seconds: about how long isolating each plugin would take, None if that was
        done or is unknown.
    :param addition: the second contrast, None if there is none.
    """
    steps = []
    stack = [run for run in runs if run.ok and run.variant == FULL]
    effects = next((run.effects for run in stack if run.effects), {})
    for row in attribution:
        if row.high is not None and row.high < 1:
            steps.append(f'remove "{row.plugin}": the stack is faster without it')
    if addition is not None and addition.verdict is Verdict.FASTER:
        steps += _adding(addition)
    quality, memory = comparison.quality, comparison.headline_memory
    # the words of both vocabularies that mean the same are the same
    judged: str = comparison.verdict if memory is None else memory.verdict
    match judged:
        case Verdict.STEPS_FASTER:
            steps.append("measure what a whole training gains: --full")
        case Verdict.QUALITY_OPEN if comparison.kind.of_cut_runs:
            steps.append("settle the quality with whole trainings: --full")
        case Verdict.QUALITY_OPEN if quality is not None and not quality.metric:
            steps.append(
                "compare the models of both sides by what the script prints: tfopt sees no metric "
                "that it can judge by"
            )
        case Verdict.QUALITY_OPEN if quality is not None:
            steps.append(
                f"settle the quality: more pairs (--pairs {max(12, 2 * pairs)}), or a tolerance "
                f"that matters to you (now {quality.tolerance:.4g})"
            )
        case Verdict.FITS:
            steps.append("to compare times, measure at a batch size that fits both")
        case Verdict.DOES_NOT_FIT:
            steps.append("measure at a smaller batch size, or take out what holds data in memory")
        case Verdict.WORSE:
            steps.append("take out the plugins that change the arithmetic, one at a time")
        case Verdict.INCONCLUSIVE:
            steps.append("measure more pairs (--pairs), or each for longer (--seconds)")
        case Verdict.UNLIKE:
            steps.append(
                "have both sides train alike: take out what stops early or leaves examples out, or "
                "judge by [measure.target]"
            )
        case Verdict.NO_DIFFERENCE | Verdict.SLOWER | Verdict.STEPS_SLOWER | MemoryVerdict.HEAVIER:
            steps.append("try other plugins: `tfopt plugins` says what each is for")
    if not attribution and len(effects) > 1 and comparison.verdict in ISOLATE:
        time = f"about {seconds_in_words(isolating_seconds)}, " if isolating_seconds else ""
        steps.append(
            f"{ISOLATE[comparison.verdict]}: --set measure.attribution=leave-one-out "
            f"({time}{len(effects) + 2} runs a group)"
        )
    for name, effect in effects.items():
        if not effect.applied:
            steps.append(f'take "{name}" out of the recipe: it was not applied ({effect.detail})')
    return tuple(steps)


def _adding(addition: Addition) -> list[str]:
    """Return how to train with what is faster on top of the stack, unless its model is worse."""
    good = None if addition.quality is None else addition.quality.verdict
    if good is QualityVerdict.WORSE:
        return []
    step = f"to train with {' and '.join(addition.plugins)} too, take the # off in the recipe"
    if good in (QualityVerdict.NOT_WORSE, QualityVerdict.CERTIFIED):
        return [step]
    return [f"{step}; whether the model stays as good was not established"]
