"""Certify the stacks of a measurement by a replay of two short epochs, each in a process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial

import attrs

from tfopt_core.hooks.card import Equivalence
from tfopt_core.measurement import progress
from tfopt_core.measurement.progress import Observer
from tfopt_core.statistics.certificate import Certificate, certify, impossible, without_unsteady
from tfopt_core.statistics.results import Addition
from tfopt_core.statistics.runs import BASELINE, FULL
from tfopt_core.training.replay.data import Replayed, ReplayPart
from tfopt_core.trials.processes import Processes, ReplayFailed
from tfopt_core.trials.request import Prepared, Request, Variant
from tfopt_core.workers.spawn import Runner

ONE_PROCESS = "the replay runs in one process, and shows nothing of several workers"
# A longer epoch is cut down to the batches of so many seconds, or to these where none is timed.
EPOCH_SECONDS, LEAST_BATCHES, UNTIMED_BATCHES = 2.0, 10, 100


def certified(
    request: Request, prepared: Prepared, added: Addition | None, *, seed: int, runner: Runner,
    observer: Observer,
) -> tuple[Certificate | None, Certificate | None]:  # fmt: skip
    """Return the certificates of the stack and of that of the second contrast, None where none can
    be made.

    :param prepared: the dry build of the measurement.
    :param seed: of all replays.
    """
    # of a loop of the script's own no batch can be replayed
    if prepared.equivalence == "changes" or prepared.own_loop:
        return None, None
    if prepared.several_processes:
        return impossible(ONE_PROCESS), impossible(ONE_PROCESS)
    stacks: list[tuple[Variant, Equivalence]] = [
        (Variant(FULL, request.plugins), prepared.equivalence)
    ]
    if added is not None:
        stacks.append((Variant(added.variant, request.added), added.equivalence))
    observer(progress.Certifying())
    processes, batches = Processes(request, runner), most_batches(prepared)
    certificates = replay_all(processes, stacks, seed=seed, batches=batches)
    return certificates[0], None if added is None else certificates[1]


def most_batches(prepared: Prepared) -> int | None:
    """Return to how many batches an epoch of a replay is cut down; None if it is short."""
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    most = UNTIMED_BATCHES
    if whole is not None and steps is not None:
        most = max(LEAST_BATCHES, int(EPOCH_SECONDS / whole * prepared.epochs * steps))
    return None if steps is not None and steps <= most else most


def replay_all(
    processes: Processes,
    stacks: Sequence[tuple[Variant, Equivalence]],
    *,
    seed: int,
    batches: int | None = None,
) -> list[Certificate | None]:
    """Replay a short training without plugins once, and with each of these stacks.

    :param stacks: each with what it does to the mathematics.
    :param batches: the most batches of an epoch, None for all.
    :returns: for each stack its certificate; None for one that changes the algorithm, which trains
        something else by intention. Of a replay that fails it says why nothing is certified, since
        that is no error of the measurement.
    """
    shared = processes.request.folder / "replay" / "shared"
    shutil.rmtree(shared, ignore_errors=True)
    replayed = partial(processes.replay, seed=seed, shared=shared, batches=batches)

    @cache
    def baseline(part: ReplayPart) -> Replayed:
        return replayed(Variant(BASELINE, ()), part=part)

    try:
        return [
            None if equivalence == "changes" else _replay(variant, equivalence, replayed, baseline)
            for variant, equivalence in stacks
        ]
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def _replay(
    variant: Variant, equivalence: Equivalence, replayed: Callable[..., Replayed],
    baseline: Callable[[ReplayPart], Replayed],
) -> Certificate:  # fmt: skip
    """Replay a stack and return its certificate.

    :param replayed: replays a part of a training.
    :param baseline: returns what that part of the training without plugins was.
    """
    may_reorder = equivalence in ("order", "rounding")
    part: ReplayPart = "fixed batches" if may_reorder else "training"
    try:
        ours, stack = baseline(part), replayed(variant, part=part, against=BASELINE)
    except ReplayFailed as error:
        return impossible(str(error))
    found = certify(equivalence, ours, stack)
    if equivalence == "rounding" or found.kind != "diverges":
        return found
    with suppress(ReplayFailed):
        if not may_reorder:  # the data that both sides read may explain their difference
            data, theirs = baseline("data"), replayed(variant, part="data")
            ours = attrs.evolve(ours, epochs=data.epochs, reproducible=data.reproducible)
            stack = attrs.evolve(stack, epochs=theirs.epochs)
    with suppress(ReplayFailed):
        again = replayed(variant, part=part, against=variant.name)
        stack = without_unsteady(stack, again)
    return certify(equivalence, ours, stack)
