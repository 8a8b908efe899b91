"""Certify the stacks of a measurement by a replay, where that does not take too much time."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.hooks.card import Equivalence
from tfopt_core.measurement import progress
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.replaying import Certificate, replay_all
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.certificate import impossible
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

ONE_PROCESS = "the replay runs in one process, and shows nothing of several workers"
# The largest share of the time of all runs for a certificate, ...
CERTIFICATE_SHARE = 0.25
# ... and one that takes no longer is always made.
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
    measuring_seconds: float | None,
    runner: Runner,
    observer: Observer,
) -> list[Certificate | None]:
    """Return the certificate of each stack, None where none can be made.

    :param prepared: the dry build of the measurement.
    :param stacks: those that are replayed, each with what it does to the mathematics. Where there
        is no time for all, it is the first ones.
    :param seed: of all replays.
    :param measuring_seconds: about how long all runs take, None if unknown.
    """
    if prepared.own_loop:  # of a loop of the script's own no batch can be replayed
        return [None for _ in stacks]
    reasons = [
        _why_not_replayed(prepared, measuring_seconds, 2 + count) for count in range(len(stacks))
    ]
    found: list[Certificate | None] = [impossible(reason) for reason in reasons if reason]
    replayed = [stack for stack, reason in zip(stacks, reasons, strict=True) if not reason]
    if replayed:
        observer(progress.Certifying())
        found = [*replay_all(Processes(request, runner), replayed, seed=seed), *found]
    return found


def _why_not_replayed(
    prepared: Prepared, measuring_seconds: float | None, replays: int
) -> str | None:
    """Return why so many replays, that of the baseline among them, are not made; None if they
    are."""
    if prepared.several_processes:
        return ONE_PROCESS
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    if whole is None or steps is None:
        return None
    replay = replays * min(1.0, REPLAYED_STEPS / (steps * prepared.epochs)) * whole
    longest = max(ALWAYS_CERTIFIED_SECONDS, CERTIFICATE_SHARE * (measuring_seconds or 0.0))
    if replay <= longest:
        return None
    return (
        f"replaying {REPLAYED_STEPS} steps {TIMES[replays]} would take about "
        f"{seconds_in_words(replay)}, more than the {seconds_in_words(longest)} for it"
    )
