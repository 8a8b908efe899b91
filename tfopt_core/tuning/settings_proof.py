"""Prove the best values by quality: fresh pairs of whole trainings, on data that no search read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.measurement.schedule import Schedule, baseline_and_full
from tfopt_core.records.variants import BASELINE
from tfopt_core.records.verdict import QualityVerdict
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, t_interval
from tfopt_core.trials.request import Request
from tfopt_core.tuning.results import ProofPair, SettingsProof, Values
from tfopt_core.tuning.settings_runs import SettingsRunner, TrialTraining
from tfopt_core.tuning.trial_runs import NoFigure

MOST_PAIRS = 12
# Values that make trainings fail are not accepted, however good the other trainings are.
MOST_FAILURES = 1


def pairs_within(seconds: float, pair_seconds: float) -> int:
    """Return how many pairs to make: what the time holds, between 4 and 12. Fixed beforehand."""
    return min(MOST_PAIRS, max(MINIMUM_PAIRS, int(seconds // max(pair_seconds, 0.001))))


def prove(
    runner: SettingsRunner, values: Values, *, pairs: int, seed: int,
    on_pair: Callable[[int], None] = lambda pair: None,
) -> SettingsProof:  # fmt: skip
    """Make fresh pairs of the untuned and the tuned training. Return what they show.

    Ctrl-C ends it: the pairs so far are kept, and nothing is confirmed.

    :param runner: that reads quality on the validation data.
    """
    begun, samples = runner.tune.now(), list[ProofPair]()
    try:
        sides = (runner.prepared({}), runner.prepared(values))
        for number in range(pairs):
            samples.append(_pair(runner, sides, Schedule(seed), number))
            on_pair(number + 1)
    except (NoFigure, TfoptError) as error:
        proof = _void(f"a training cannot be built: {error}")
    except KeyboardInterrupt:
        interrupted = _void(f"interrupted after {len(samples)} of {pairs} pairs")
        proof = attrs.evolve(interrupted, interrupted=True)
    else:
        proof = _judged(runner, samples)
    return attrs.evolve(proof, pairs=tuple(samples), seconds=runner.tune.now() - begun)


def _pair(
    runner: SettingsRunner, sides: tuple[Request, Request], schedule: Schedule, number: int
) -> ProofPair:
    """Return the figures of a pair, or its failure."""
    scheduled = schedule.runs(number, baseline_and_full(sides[1].plugins))
    sample, trained = ProofPair(seed=scheduled[0].seed), dict[str, TrialTraining]()
    try:
        for one in scheduled:
            name, what = ("tuned", "untuned")[one.variant.name == BASELINE], "training failed"
            trained[name] = runner.train(sides[name == "tuned"], one.seed, place=number)
        untuned, tuned = trained["untuned"], trained["tuned"]
        name, what = "untuned", "training has no figure of quality"
        sample = attrs.evolve(sample, untuned=untuned.within(math.inf))
        name = "tuned"
        return attrs.evolve(sample, tuned=_in_time(untuned, tuned, runner.sign))
    except NoFigure as error:
        return attrs.evolve(sample, failure=f"the {name} {what}: {error}")


def _in_time(untuned: TrialTraining, tuned: TrialTraining, sign: float) -> float:
    """Return the metric of the tuned training in the time of the untuned one.

    One that ended no epoch by then counts with the worst metric of the pair: to leave it out would
    be to its favor.
    """
    if tuned.epochs[0][0] > untuned.seconds:
        return min((one.worst(sign) for one in (untuned, tuned)), key=lambda one: sign * one)
    return tuned.within(untuned.seconds)


def _judged(runner: SettingsRunner, samples: Sequence[ProofPair]) -> SettingsProof:
    failures = [one.failure for one in samples if one.failure]
    known = [
        (one.untuned, one.tuned)
        for one in samples
        if one.untuned is not None and one.tuned is not None
    ]
    if len(failures) > MOST_FAILURES or len(known) < MINIMUM_PAIRS:
        return _void(f"{len(failures)} of {len(samples)} pairs failed: {failures[0]}")
    interval = t_interval([runner.sign * (tuned - untuned) for untuned, tuned in known])
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
            + "".join(f"; in one more, {failure}" for failure in failures)
        ),
    )  # fmt: skip


def _void(why: str) -> SettingsProof:
    return SettingsProof(confirmed=False, statement=f"void: {why}", pairs=())
