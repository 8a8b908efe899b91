"""Certify the stacks of a measurement by a replay of two short epochs."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.hooks.card import Equivalence
from tfopt_core.measurement import progress
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.replaying import Certificate, replay_all
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.certificate import impossible
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

ONE_PROCESS = "the replay runs in one process, and shows nothing of several workers"
# A longer epoch is cut down to the batches of so many seconds, or to these where none is timed.
EPOCH_SECONDS, LEAST_BATCHES, UNTIMED_BATCHES = 3.0, 10, 100


def certificates(
    request: Request,
    prepared: Prepared,
    stacks: Sequence[tuple[Variant, Equivalence]],
    *,
    seed: int,
    runner: Runner,
    observer: Observer,
) -> list[Certificate | None]:
    """Return the certificate of each stack, None where none can be made.

    :param prepared: the dry build of the measurement.
    :param stacks: those that are replayed, each with what it does to the mathematics.
    :param seed: of all replays.
    """
    if prepared.own_loop:  # of a loop of the script's own no batch can be replayed
        return [None for _ in stacks]
    if prepared.several_processes:
        return [impossible(ONE_PROCESS) for _ in stacks]
    observer(progress.Certifying())
    batches = most_batches(prepared)
    return replay_all(Processes(request, runner), stacks, seed=seed, batches=batches)


def most_batches(prepared: Prepared) -> int | None:
    """Return to how many batches an epoch of a replay is cut down; None if it is short."""
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    most = UNTIMED_BATCHES
    if whole is not None and steps is not None:
        most = max(LEAST_BATCHES, int(EPOCH_SECONDS / whole * prepared.epochs * steps))
    return None if steps is not None and steps <= most else most
