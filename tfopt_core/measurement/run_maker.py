"""Make one run, and report how it goes."""

from __future__ import annotations

import attrs

from tfopt_core.measurement import progress
from tfopt_core.measurement.edits import CodeAtStart
from tfopt_core.measurement.progress import Observer
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import EpochDone, Progress, StepDone, Tell
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import ScheduledRun
from tfopt_core.trials.processes import Processes


@attrs.frozen(kw_only=True, eq=False)
class RunMaker:
    """Makes the runs of a measurement, each in a process of its own."""

    processes: Processes
    prepared: Prepared
    observer: Observer
    code: CodeAtStart

    def make(
        self,
        scheduled: ScheduledRun,
        run_id: str,
        *,
        started: progress.RunStarted,
        kept: int,
        save: bool = False,
        longest_seconds: float | None = None,
    ) -> RunResult:
        """Make a run and return it. It is not stored.

        :param started: the event of its start.
        :param kept: how many runs before it are kept.
        :param save: whether its model is saved.
        :param longest_seconds: the seconds of timed steps after which it is cut, None to train to
            the end.
        :raises EditedMeanwhile: if code was edited before its end.
        """
        self.code.check(kept)
        self.observer(started)
        run = self.processes.run(
            scheduled, run_id, self._teller(), save=save, longest_seconds=longest_seconds
        )
        self.code.check(kept)
        return run

    def _teller(self) -> Tell:
        """Return a function that turns a process' messages into events."""
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
                    epoch=message.epoch,
                    epochs=self.prepared.epochs,
                    step=step,
                    steps_per_epoch=self.prepared.steps_per_epoch,
                    metrics=dict(metrics),
                )
            )

        return tell
