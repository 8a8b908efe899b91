"""Prove the best values by fresh pairs: new seeds, whole trainings, data that no search read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.measurement.schedule import Schedule, baseline_and_full
from tfopt_core.records.variants import BASELINE
from tfopt_core.records.verdict import ComparisonKind, QualityVerdict, Verdict
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.intervals import (
    MINIMUM_PAIRS,
    SUSPICIOUS_DEVIATION,
    log_ratios,
    speedup_interval,
    t_interval,
)
from tfopt_core.statistics.judgement import verdict_on_interval
from tfopt_core.statistics.pairs import Pair
from tfopt_core.trials.request import Request
from tfopt_core.tuning.results import ProofPair, SettingsProof, Values
from tfopt_core.tuning.settings_runs import SettingsRunner, TrialTraining
from tfopt_core.tuning.stacks import Stack
from tfopt_core.tuning.trial_runs import NoFigure

MOST_PAIRS = 12
# Values that make trainings fail are not accepted, however good the other trainings are.
MOST_FAILURES = 1
_SHOWN = {
    Verdict.FASTER: "reached sooner", Verdict.SLOWER: "reached later",
    Verdict.NO_DIFFERENCE: "no measurable difference",
    Verdict.INCONCLUSIVE: Verdict.INCONCLUSIVE.label,
}  # fmt: skip


def pairs_within(seconds: float, pair_seconds: float) -> int:
    """Return how many pairs to make: what the time holds, between 4 and 12. Fixed beforehand."""
    return min(MOST_PAIRS, max(MINIMUM_PAIRS, int(seconds // max(pair_seconds, 0.001))))


def prove(
    runner: SettingsRunner, values: Values, *, baseline: Stack, pairs: int, seed: int,
    on_pair: Callable[[int], None] = lambda pair: None,
) -> SettingsProof:  # fmt: skip
    """Make fresh pairs of the untuned and the tuned training. Return what they show.

    Ctrl-C ends it: the pairs so far are kept, and nothing is confirmed.

    :param runner: that reads quality on the validation data.
    :param baseline: the stack of the untuned training.
    """
    begun, made = runner.tune.now(), list[Pair]()
    samples: list[ProofPair] = []
    try:
        sides = (runner.prepared({}, baseline), runner.prepared(values))
        for number in range(pairs):
            sample, pair = _pair(runner, sides, Schedule(seed), number)
            samples.append(sample)
            if pair is not None:
                made.append(pair)
            on_pair(number + 1)
    except (NoFigure, TfoptError) as error:
        proof = _void(f"a training cannot be built: {error}")
    except KeyboardInterrupt:
        interrupted = _void(f"interrupted after {len(samples)} of {pairs} pairs")
        proof = attrs.evolve(interrupted, interrupted=True)
    else:
        proof = _judged(runner, made, samples)
        if proof.figure is not None and len(made) < len(samples):
            failure = next(one.failure for one in samples if one.failure)
            proof = attrs.evolve(proof, statement=f"{proof.statement}; in one more, {failure}")
    return attrs.evolve(proof, pairs=tuple(samples), seconds=runner.tune.now() - begun)


def _pair(
    runner: SettingsRunner, sides: tuple[Request, Request], schedule: Schedule, number: int
) -> tuple[ProofPair, Pair | None]:
    """Return the figures of a pair, and its runs if both ended well."""
    scheduled = schedule.runs(number, baseline_and_full(sides[1].plugins))
    sample, trained = ProofPair(seed=scheduled[0].seed), dict[str, TrialTraining]()
    figures: tuple[float | None, float | None]
    try:
        for one in scheduled:
            name, what = ("tuned", "untuned")[one.variant.name == BASELINE], "training failed"
            trained[name] = runner.train(sides[name == "tuned"], one.seed, place=number)
        untuned, tuned = trained["untuned"], trained["tuned"]
        figures = untuned.run.fit.seconds_to_target, tuned.run.fit.seconds_to_target
        if runner.tune.objective == "quality":
            what = "training has no figure of quality"
            figures = untuned.within(math.inf), _in_time(untuned, tuned, runner.sign)
    except NoFigure as error:
        return attrs.evolve(sample, failure=f"the {name} {what}: {error}"), None
    pair = Pair(untuned.run, tuned.run)
    return attrs.evolve(sample, untuned=figures[0], tuned=figures[1]), pair


def _in_time(untuned: TrialTraining, tuned: TrialTraining, sign: float) -> float:
    """Return the metric of the tuned training in the time of the untuned one.

    One that ended no epoch by then counts with the worst metric of the pair: to leave it out would
    be to its favor.
    """
    if tuned.epochs[0][0] > untuned.seconds:
        return min((one.worst(sign) for one in (untuned, tuned)), key=lambda one: sign * one)
    return tuned.within(untuned.seconds)


def _judged(
    runner: SettingsRunner, made: Sequence[Pair], samples: Sequence[ProofPair]
) -> SettingsProof:
    failures = [one.failure for one in samples if one.failure]
    if len(failures) > MOST_FAILURES or len(made) < MINIMUM_PAIRS:
        return _void(f"{len(failures)} of {len(samples)} pairs failed: {failures[0]}")
    if runner.tune.objective == "quality":
        return _of_quality(runner, samples)
    figures = compared_seconds(made, ComparisonKind.TIME_TO_TARGET)
    if isinstance(figures, str):
        return _void(figures.removeprefix("void: "))
    interval = t_interval(log_ratios(*figures))
    if interval.deviation < SUSPICIOUS_DEVIATION:
        return _void("suspiciously identical timings")
    ratio, low, high = speedup_interval(interval)
    verdict = verdict_on_interval(low, high)
    ends = f"{ratio:.2f}x (95% interval {low:.2f} to {high:.2f}, {len(made)} pairs)"
    return SettingsProof(
        confirmed=verdict is Verdict.FASTER, pairs=(), figure=ratio, low=low, high=high,
        confidence=interval.confidence,
        statement=f"the target in {runner.metric}: {_SHOWN[verdict]}, {ends}",
    )  # fmt: skip


def _of_quality(runner: SettingsRunner, samples: Sequence[ProofPair]) -> SettingsProof:
    known = [
        (one.untuned, one.tuned)
        for one in samples
        if one.untuned is not None and one.tuned is not None
    ]
    differences = [runner.sign * (tuned - untuned) for untuned, tuned in known]
    interval = t_interval(differences)
    before, after = (math.fsum(side) / len(known) for side in zip(*known, strict=True))
    shown = "no difference is shown"
    if interval.excludes_no_difference:
        shown = "better" if interval.low > 0 else QualityVerdict.WORSE.value
    return SettingsProof(
        confirmed=interval.low > 0, pairs=(), figure=interval.mean, low=interval.low,
        high=interval.high, confidence=interval.confidence,
        statement=(
            f"{runner.metric} in the untuned training's time: {shown}, {after:.4g} against "
            f"{before:.4g}, a difference of {interval.mean:+.4g} (95% interval {interval.low:+.4g} "
            f"to {interval.high:+.4g}, {len(known)} pairs; above 0 is better)"
        ),
    )  # fmt: skip


def _void(why: str) -> SettingsProof:
    return SettingsProof(confirmed=False, statement=f"void: {why}", pairs=())
