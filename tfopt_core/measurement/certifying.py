"""Certify the stacks of a measurement by a replay of two short epochs, each in a process."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import attrs

from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.hooks.plugin_class import Equivalence
from tfopt_core.measurement import progress
from tfopt_core.measurement.progress import Observer
from tfopt_core.statistics.certificate import Certificate, certify, impossible, without_unsteady
from tfopt_core.statistics.results import Addition
from tfopt_core.statistics.runs import BASELINE, FULL
from tfopt_core.training.replay.data import Replayed, ReplayPart
from tfopt_core.trials.processes import Processes, ReplayFailed
from tfopt_core.trials.request import Prepared, Request, Variant
from tfopt_core.workers.fork import ForkRunner, called_off
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.turns import FREE_MEMORY, can_take_turns

ONE_PROCESS = "the replay runs in one process, and shows nothing of several workers"
# A longer epoch is cut down to the batches of so many seconds, or to these where none is timed.
EPOCH_SECONDS, LEAST_BATCHES, UNTIMED_BATCHES = 2.0, 10, 100


def certified(
    request: Request, prepared: Prepared, added: Addition | None, *, seed: int, runner: Runner,
    observer: Observer,
) -> dict[str, Certificate]:  # fmt: skip
    """Return the certificates of the stack and of that of the second contrast, by variant, as far
    as some can be made.

    :param prepared: the dry build of the measurement.
    :param seed: of all replays.
    """
    # of a loop of the script's own no batch can be replayed
    if prepared.equivalence == "changes" or prepared.own_loop:
        return {}
    stacks: list[tuple[Variant, Equivalence]] = [
        (Variant(FULL, request.plugins), prepared.equivalence)
    ]
    if added is not None:
        stacks.append((Variant(added.variant, request.added), added.equivalence))
    if prepared.several_processes:
        return {variant.name: impossible(ONE_PROCESS) for variant, _ in stacks}
    observer(progress.Certifying())
    together = _may_be_together(request, prepared, runner)
    replays = Replays(Processes(request, runner), seed, most_batches(prepared), together)
    return replays.certificates(stacks)


def _may_be_together(request: Request, prepared: Prepared, runner: Runner) -> bool:
    """Return whether two sides may be replayed at the same time: where they would not disturb each
    other in turns either, and memory suffices for both."""
    recipe, peak = request.recipe, prepared.peak_rss_bytes
    apart = can_take_turns(recipe.workload, recipe.measure.objective)
    if not apart or peak is None or not isinstance(runner, ForkRunner):
        return False
    return available_memory_bytes() >= 2 * FREE_MEMORY * peak


def most_batches(prepared: Prepared) -> int | None:
    """Return to how many batches an epoch of a replay is cut down; None if it is short."""
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    most = UNTIMED_BATCHES
    if whole is not None and steps is not None:
        most = max(LEAST_BATCHES, int(EPOCH_SECONDS / whole * prepared.epochs * steps))
    return None if steps is not None and steps <= most else most


@attrs.define
class Replays:
    """The replays of a measurement: of a short training without plugins once, and with each stack.

    :param batches: the most batches of an epoch, None for all.
    :param together: whether two sides may be replayed at the same time.
    """

    processes: Processes
    seed: int
    batches: int | None = None
    together: bool = False
    _baselines: dict[ReplayPart, Replayed] = attrs.field(factory=dict)

    @property
    def _shared(self) -> Path:
        return self.processes.request.folder / "replay" / "shared"

    def certificates(self, stacks: Sequence[tuple[Variant, Equivalence]]) -> dict[str, Certificate]:
        """Return the certificate of each stack, by variant. One that changes the algorithm has
        none: it trains something else by intention.

        :param stacks: each with what it does to the training.
        """
        shutil.rmtree(self._shared, ignore_errors=True)
        try:
            kept = [(one, equivalence) for one, equivalence in stacks if equivalence != "changes"]
            return {one.name: self._certificate(one, equivalence) for one, equivalence in kept}
        finally:
            shutil.rmtree(self._shared, ignore_errors=True)

    def _certificate(self, variant: Variant, equivalence: Equivalence) -> Certificate:
        """Replay a stack and return its certificate. Of a replay that fails it says why: that is no
        error of the measurement."""
        may_reorder = equivalence in ("order", "rounding")
        part: ReplayPart = "fixed batches" if may_reorder else "training"
        try:
            ours, stack = self._both(variant, part)
        except ReplayFailed as error:
            return impossible(str(error))
        found = certify(equivalence, ours, stack)
        if equivalence == "rounding" or found.kind != "diverges":
            return found
        with suppress(ReplayFailed):
            if not may_reorder:  # the data that both sides read may explain their difference
                data, theirs = self._baseline("data"), self._replayed(variant, "data")
                ours = attrs.evolve(ours, epochs=data.epochs, reproducible=data.reproducible)
                stack = attrs.evolve(stack, epochs=theirs.epochs)
        with suppress(ReplayFailed):
            again = self._replayed(variant, part, against=variant.name)
            stack = without_unsteady(stack, again)
        return certify(equivalence, ours, stack)

    def _both(self, variant: Variant, part: ReplayPart) -> tuple[Replayed, Replayed]:
        """Replay a training without plugins, and with a stack: at the same time where they may be,
        and one after the other where that fails."""
        if self.together and part == "training" and not self._baselines:
            with suppress(ReplayFailed):
                return self._at_the_same_time(variant)
            if not self._baselines:
                shutil.rmtree(self._shared, ignore_errors=True)
        return self._baseline(part), self._replayed(variant, part, against=BASELINE)

    def _at_the_same_time(self, variant: Variant) -> tuple[Replayed, Replayed]:
        self.processes.warm_up()  # one server for both
        with called_off(self.processes.runner) as end, ThreadPoolExecutor(2) as threads:
            try:
                ours = threads.submit(self._baseline, "training")
                theirs = threads.submit(self._replayed, variant, "training", against=BASELINE)
                return ours.result(), theirs.result()
            except BaseException:
                end()  # or the stack's side would wait for what never comes
                raise

    def _baseline(self, part: ReplayPart) -> Replayed:
        if part not in self._baselines:
            self._baselines[part] = self._replayed(Variant(BASELINE, ()), part)
        return self._baselines[part]

    def _replayed(self, variant: Variant, part: ReplayPart, against: str = "") -> Replayed:
        return self.processes.replay(
            variant, seed=self.seed, shared=self._shared, batches=self.batches, part=part,
            against=against,
        )  # fmt: skip
