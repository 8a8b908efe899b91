"""Train a pair to its end after the verdict, for its curves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import attrs

from tfopt_core.errors import EditedMeanwhile
from tfopt_core.measurement import progress
from tfopt_core.measurement.rounds import Rounds
from tfopt_core.measurement.schedule import baseline_and_full
from tfopt_core.records.results import Results, RunResult
from tfopt_core.records.variants import ScheduledRun, Variant
from tfopt_core.statistics.figures import not_projected, total_seconds
from tfopt_core.statistics.wording import seconds_in_words

WHOLE_ALREADY = "all runs trained to their end, so --full adds none"
ENDED = "Ctrl-C ended the pair of whole trainings; --resume --full makes it anew"


def with_whole_pair(results: Results, rounds: Rounds) -> Results:
    """Return the results with a run to its end of the baseline, and of the stack with all that was
    measured on top of it.

    Nothing is trained if the runs were whole anyway, or after Ctrl-C. The verdict stays what it is.
    Where Ctrl-C ends the pair, the results are `interrupted`, so that a resume makes it anew.
    """
    ended_well = [run for run in results.runs if run.ok]
    if results.interrupted or not ended_well:
        return results
    if all(run.complete for run in ended_well):
        rounds.observer(progress.Noted(WHOLE_ALREADY))
        return results
    pair = _pair(rounds, {run.variant for run in ended_well})
    seconds = _seconds(results.runs, pair)
    takes = "" if seconds is None else f", which takes about {seconds_in_words(seconds)}"
    # the verdict is printed in full only behind them
    rounds.observer(progress.Noted(results.comparison.headline))
    rounds.observer(progress.Noted(f"a pair of whole trainings, for its curves{takes}"))
    number = 1 + max(run.round for run in results.runs)
    whole: list[RunResult] = []
    for place, variant in enumerate(pair):
        scheduled = ScheduledRun(number, place, variant, results.runs[0].seed)
        started = progress.RunStarted(
            index=place, total_runs=len(pair), variant=variant.name, round=number, pairs=1
        )
        try:
            kept = len(rounds.planned.runs)
            rounds.code.check(kept)
            whole.append(
                rounds.maker.make(scheduled, f"{results.id}-whole-{place}", started=started)
            )
            rounds.code.check(kept)
        except KeyboardInterrupt:
            return _noted(attrs.evolve(results, interrupted=True), ENDED, rounds)
        except EditedMeanwhile as error:
            # the verdict stands: all its runs are from before
            why = f"no pair of whole trainings: {', '.join(error.changed)} changed meanwhile"
            return _noted(results, why, rounds)
    failed = next((run for run in whole if not run.ok), None)
    if failed is not None:
        return _noted(results, f"of the pair of whole trainings one failed: {failed.error}", rounds)
    return attrs.evolve(results, whole_pair=tuple(whole), seconds=rounds.planned.pace.elapsed)


def _pair(rounds: Rounds, measured: Collection[str]) -> tuple[Variant, Variant]:
    """Return the baseline and the largest stack that trained.

    :param measured: the variants of which a run ended well.
    """
    baseline, full = baseline_and_full(rounds.planned.request.plugins)
    added = rounds.planned.state.added
    if added is None or added.variant not in measured:
        return baseline, full
    return baseline, Variant(added.variant, rounds.planned.request.added)


def _seconds(runs: Sequence[RunResult], pair: Sequence[Variant]) -> float | None:
    """Return about how long whole trainings of these variants take; None where a total is not
    known."""
    taken = []
    for variant in pair:
        of_variant = [run for run in runs if run.ok and run.variant == variant.name]
        if not of_variant or any(not_projected(run) is not None for run in of_variant):
            return None
        # the start and the end of a process, and what a script does beside its fits
        taken.append(
            math.fsum(
                total_seconds(run) + max(0.0, (run.process_seconds or 0) - (run.wall_seconds or 0))
                for run in of_variant
            )
            / len(of_variant)
        )
    return math.fsum(taken)


def _noted(results: Results, warning: str, rounds: Rounds) -> Results:
    warnings = (*results.warnings, warning)
    return attrs.evolve(results, warnings=warnings, seconds=rounds.planned.pace.elapsed)
