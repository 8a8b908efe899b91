"""Certify the stacks of a measurement by a replay, where that does not take too much time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.hooks.card import Equivalence
from tfopt_core.measurement import progress
from tfopt_core.measurement.pace import Pace, budget_of
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.replaying import Certificate, replay_all
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.certificate import impossible
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

ONE_PROCESS = "the replay runs in one process, and shows nothing of several workers"
# The largest share of the time for a certificate, which saves statistics but no runs.
CERTIFICATE_SHARE = 0.25
# A certificate that takes no longer is made even if a first verdict is late by then.
ALWAYS_CERTIFIED_SECONDS = 20.0
REPLAYED_STEPS = 100
# The replays of the baseline and the stack, and of the stack with additions.
TIMES = {2: "twice", 3: "three times"}


def certificates(
    request: Request,
    prepared: Prepared,
    stacks: Sequence[tuple[Variant, Equivalence]],
    *,
    seed: int,
    pace: Pace,
    runner: Runner,
    observer: Observer,
    after_verdict: bool = False,
) -> list[Certificate | None]:
    """Return the certificate of each stack, None where none can be made.

    :param prepared: the dry build of the measurement.
    :param stacks: those that are replayed, each with what it does to the mathematics. Where there
        is no time for all, it is the first ones.
    :param seed: of all replays.
    :param after_verdict: whether the first verdict is there already.
    """
    if prepared.own_loop:  # of a loop of the script's own no batch can be replayed
        return [None for _ in stacks]
    left = None if after_verdict else pace.seconds_to_first_verdict
    # a verdict that is overdue on a busy machine is late rather than weaker
    first = pace.first_verdict if left else None
    reasons = [
        _why_not_replayed(request, prepared, first, budget_of(request), 2 + count)
        for count in range(len(stacks))
    ]
    found: list[Certificate | None] = [impossible(reason) for reason in reasons if reason]
    replayed = [stack for stack, reason in zip(stacks, reasons, strict=True) if not reason]
    if replayed:
        observer(progress.Certifying(left or None))
        found = [*replay_all(Processes(request, runner), replayed, seed=seed), *found]
    return found


def _why_not_replayed(
    request: Request, prepared: Prepared, first: float | None, budget: float | None, replays: int
) -> str | None:
    """Return why so many replays, that of the baseline among them, are not made; None if they
    are."""
    if prepared.several_processes:
        return ONE_PROCESS
    return _too_expensive(request, prepared, first, budget, replays)


def _too_expensive(
    request: Request, prepared: Prepared, first: float | None, budget: float | None, replays: int
) -> str | None:
    """Return why no steps are replayed so many times: it would exceed its share of the time.

    :param first: the seconds by which a first verdict is wanted, None for no such wish.
    """
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    if whole is None or steps is None:
        return None
    replay = replays * min(1.0, REPLAYED_STEPS / (steps * prepared.epochs)) * whole
    pairs = request.recipe.measure.pairs
    measuring = budget or 2 * whole * (pairs if isinstance(pairs, int) else LOOKS[0])
    longest = CERTIFICATE_SHARE * measuring
    share = f"{CERTIFICATE_SHARE:.0%} of the time for measuring"
    # it may take half of that time, since little can be said without it
    before = max((first or math.inf) / 2, ALWAYS_CERTIFIED_SECONDS)
    if before < longest:
        longest, share = before, f"the {seconds_in_words(before)} for it until a first verdict"
    if replay <= longest:
        return None
    return (
        f"replaying {REPLAYED_STEPS} steps {TIMES[replays]} would take about "
        f"{seconds_in_words(replay)}, more than {share}"
    )
