"""Make one run, and report how it goes."""

from __future__ import annotations

import time

import attrs

from tfopt_core.measurement import progress
from tfopt_core.measurement.progress import Observer
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import EpochDone, Progress, StepDone, Tell, TurnOver
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import ScheduledRun
from tfopt_core.trials.processes import Processes


@attrs.frozen(kw_only=True, eq=False)
class RunMaker:
    """Makes the runs of a measurement, each in a process of its own."""

    processes: Processes
    prepared: Prepared
    observer: Observer

    def make(
        self,
        scheduled: ScheduledRun,
        run_id: str,
        *,
        started: progress.RunStarted,
        save: bool = False,
        warm_seconds: float | None = None,
        turn_over: Tell | None = None,
    ) -> RunResult:
        """Make a run and return it. It is not stored.

        :param started: the event of its start.
        :param save: whether its model is saved.
        :param warm_seconds: as `RunTask` has them.
        :param turn_over: called at the ends of its turns, and returns when its next one comes; None
            where it takes no turns.
        """
        self.observer(started)
        stopped = 0.0

        def tell(message: Progress) -> None:
            nonlocal stopped
            if turn_over is None or not isinstance(message, TurnOver):
                told(message)
                return
            since = time.monotonic()
            turn_over(message)
            stopped += time.monotonic() - since

        told = self._teller(started)
        run = self.processes.run(
            scheduled, run_id, tell, save=save, warm_seconds=warm_seconds,
            in_turns=turn_over is not None,
        )  # fmt: skip
        taken = run.process_seconds
        return attrs.evolve(run, process_seconds=None if taken is None else taken - stopped)

    def _teller(self, started: progress.RunStarted) -> Tell:
        """Return a function that turns the messages of a run's process into events."""
        metrics: dict[str, float] = {}

        def tell(message: Progress) -> None:
            if isinstance(message, EpochDone):
                metrics.update(message.metrics)
                step = self.prepared.steps_per_epoch or 0
            elif isinstance(message, StepDone):
                step = message.step
            else:
                return
            self.observer(
                progress.RunProgress(
                    run=started,
                    epoch=message.epoch,
                    epochs=self.prepared.epochs,
                    step=step,
                    steps_per_epoch=self.prepared.steps_per_epoch,
                    metrics=dict(metrics),
                )
            )

        return tell
