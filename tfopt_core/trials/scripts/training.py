"""Train a script with the stack in each of its fits, and report the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError, ran_out_of_memory
from tfopt_core.records.run import RunReport
from tfopt_core.training.job import Job
from tfopt_core.training.scripts.fit_workload import FitWorkload
from tfopt_core.training.scripts.fitting import FitOfScript, effects_of, train_fit
from tfopt_core.training.scripts.limits import cut_in_words
from tfopt_core.training.scripts.own_loop import NOT_WATCHED
from tfopt_core.training.scripts.running import ScriptEnd
from tfopt_core.trials.run import pacing_of
from tfopt_core.trials.scripts.run import ScriptRun
from tfopt_core.trials.turns import Turn
from tfopt_core.workers.task import RunTask
from tfopt_core.workers.telemetry import cpu_seconds, peak_device_bytes, peak_rss_bytes


@attrs.define(eq=False)
class ScriptTraining(ScriptRun[RunTask]):
    """A run whose fits are trained, each to its end or until it is cut short."""

    fits: list[FitOfScript] = attrs.field(factory=list)
    empty_fits: int = 0
    _last_model: Any = None
    _turn: Turn | None = attrs.field(init=False)

    @_turn.default
    def _first_turn(self) -> Turn | None:
        return Turn(self.tell) if self.task.in_turns else None

    def report(self, end: ScriptEnd) -> RunReport:
        """Return what was observed of the run.

        :raises WorkloadError: if nothing was trained, in a run that is measured.
        """
        if self.own is not None and self.own.loop.clock.updates:
            return self._report_of_loop(end)
        if not self.fits and self.task.measured:
            raise WorkloadError(self.in_words(self.why_nothing(end))) from end.raised
        if self.task.save_to is not None and self._last_model is not None:
            self._last_model.save(self.task.save_to)
        report = self._with_end(report_of(self.task.job, self.fits, end), end)
        trouble = end.error or (f"ended by {end.exited}" if end.status else None)
        if trouble is None or not self.task.measured or not self._fits_are_done():
            return report
        after_fits = self.in_words(trouble)
        return attrs.evolve(report, after_fits=after_fits, script_error=None, out_of_memory=False)

    def _report_of_loop(self, end: ScriptEnd) -> RunReport:
        """Return what was observed of a run that trained in a loop of the script's own."""
        assert self.own is not None
        return self._with_end(self.own.run_report(end.status), end)

    def _with_end(self, report: RunReport, end: ScriptEnd) -> RunReport:
        return attrs.evolve(
            report,
            notes=tuple(self.in_words(note) for note in self._notes(end)),
            script_error=None if end.error is None else self.in_words(end.error),
            out_of_memory=end.raised is not None and ran_out_of_memory(end.raised),
        )

    def _loop_was_read(self) -> None:
        """Tell the progress, stop for another run's turn, and end the run with its process at its
        last update.

        An exception would run the rest of the script, or be caught by it.
        """
        assert self.own is not None
        clock = self.own.loop.clock
        self.own.tell_progress(self.tell)
        if clock.is_over:
            self._end_by(lambda: self._report_of_loop(ScriptEnd(status=0)))
        if self._turn is not None and clock.warm and self._turn.is_over:
            self._turn.end()

    def _fits_are_done(self) -> bool:
        """Return whether the timed fits have ended: the fit that the recipe names, or all that
        began."""
        number = self.task.job.recipe.workload.fit
        if number is not None:
            return any(fit.number == number for fit in self.fits)
        calls = 0 if self.session is None else self.session.calls
        return bool(self.fits) and len(self.fits) + self.empty_fits == calls

    def _notes(self, end: ScriptEnd) -> Iterator[str]:
        cut = cut_in_words(self.task.job.recipe.workload)
        if cut is not None and not self.task.measured and self.own is None:
            yield cut  # a measurement reports it itself
        loop = None if self.own is None else self.own.loop
        if not self.fits and (loop is None or not loop.clock.updates):
            yield self.why_nothing(end)
        if (
            loop is not None
            and loop.clock.updates
            and loop.last_loss is None
            and self.task.measured
        ):
            yield NOT_WATCHED
        seeding = None if self.seeding is None else self.seeding.in_words()
        if seeding:
            yield seeding
        if end.read_input:
            yield "the script read standard input, which is empty here"
        patches = None if self.session is None else self.session.patches
        if self.empty_fits:
            yield f"{self.empty_fits} calls of fit() had no data and trained nothing"
        if patches is not None and patches.threads:
            yield f"fit() was called in a thread ({', '.join(sorted(patches.threads))})"
        if patches is not None and self.fits and (patches.updates or patches.batches_alone):
            yield "the script also trains outside of fit(), in a loop that is not measured"

    def _on_fit(self, workload: FitWorkload, started: int) -> Any:
        task = self.task
        if workload.data.steps_per_epoch() == 0:
            self.empty_fits += 1
            return workload.call.make(workload.call.callbacks, {})
        built = workload.built(task.job)
        pacing = pacing_of(task, built.run, self._turn)
        fit, history = train_fit(workload, built, started, self.tell, pacing)
        self.fits.append(fit)
        judged = task.job.recipe.workload.fit in (None, workload.call.number)
        if task.save_to is not None and judged:
            self._last_model = built.stack.unwrap(built.model)
        return history


def report_of(job: Job, fits: Sequence[FitOfScript], end: ScriptEnd) -> RunReport:
    """Return what is observed of a run with these fits.

    :param fits: in the order of their calls; if the recipe names a fit, it alone is judged.
    :raises WorkloadError: if the fit that the recipe names did not come.
    """
    judged_number = job.recipe.workload.fit
    numbers = [fit.number for fit in fits]
    if judged_number is not None and judged_number not in numbers:
        before = f"; {end.error}" if end.error is not None else ""
        raise WorkloadError(
            f"fit = {judged_number} is judged, and in this run the script trained by "
            f"{len(fits)} call{'s' * (len(fits) != 1)} of fit only{before}"
        )
    judged = [fit for fit in fits if judged_number in (None, fit.number)]
    return RunReport(
        wall_seconds=sum(fit.outcome.wall_seconds for fit in judged),
        peak_rss_bytes=peak_rss_bytes(),
        peak_device_bytes=peak_device_bytes() if fits else None,
        cpu_seconds=cpu_seconds(),
        effects=effects_of(judged),
        fits=tuple(fit.outcome for fit in fits),
        judged=None if judged_number is None else numbers.index(judged_number),
        exit_status=end.status,
        diverged=next((str(fit.diverged) for fit in judged if fit.diverged), None),
    )
