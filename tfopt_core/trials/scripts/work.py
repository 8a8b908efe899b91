"""Carry out the tasks of an unmodified script: train each of its fits, or examine one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from typing import Any, NoReturn, cast

import attrs

from tfopt_core.errors import InputError, WorkloadError, ran_out_of_memory
from tfopt_core.lazy import keras
from tfopt_core.scripts.call import lengthen
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.scripts.fitting import FitState, effects_of, train_fit
from tfopt_core.scripts.limits import cut_in_words, stopping_after
from tfopt_core.scripts.own.loop import NOT_WATCHED
from tfopt_core.scripts.running import ScriptEnd
from tfopt_core.training.job import Job
from tfopt_core.training.messages import Answer, FitOutcome, Message, RunReport
from tfopt_core.training.replay.data import EPOCHS
from tfopt_core.training.runtime import seen_by_tensorflow
from tfopt_core.trials.request import Prepared
from tfopt_core.trials.run import pacing_of
from tfopt_core.trials.scripts.run import ScriptRun
from tfopt_core.workers.task import (
    DiagnoseTask,
    LookTask,
    Parent,
    PrepareTask,
    ProcessStarted,
    ReplayTask,
    RunTask,
    failure_of,
)
from tfopt_core.workers.telemetry import cpu_seconds, peak_device_bytes, peak_rss_bytes
from tfopt_core.workers.turns import Turn

Load = Callable[[Job], FitWorkload]
# The steps of each fit before the one to examine.
STEPS_OF_OTHERS = 2


@attrs.define(eq=False)
class ScriptTraining(ScriptRun[RunTask]):
    """A run whose fits are trained, each to its end or until it is cut short."""

    fits: list[FitOutcome] = attrs.field(factory=list)
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
        if self.own.clock.updates:
            return self._with_end(self.own.run_report(), end)
        if not self.fits and self.task.measured:
            raise WorkloadError(self.why_nothing(end)) from end.raised
        if self.task.save_to is not None and self._last_model is not None:
            self._last_model.save(self.task.save_to)
        report = self._with_end(self._report_of_fits(end), end)
        trouble = end.error or (f"ended by {end.exited}" if end.status else None)
        if trouble is None or not self.task.measured or not self._fits_are_done():
            return report
        return attrs.evolve(report, after_fits=trouble, script_error=None, out_of_memory=False)

    def _report_of_fits(self, end: ScriptEnd) -> RunReport:
        """Return what was observed of a run that trained by calls of `fit`.

        :raises WorkloadError: if the fit that the recipe names did not come.
        """
        fits, number = self.fits, self.task.job.recipe.workload.fit
        numbers = [fit.number for fit in fits]
        if number is not None and number not in numbers:
            before = f"; {end.error}" if end.error is not None else ""
            raise WorkloadError(
                f"fit = {number} is judged, and in this run the script trained by "
                f"{len(fits)} call{'s' * (len(fits) != 1)} of fit only{before}"
            )
        judged = [fit for fit in fits if number in (None, fit.number)]
        return RunReport(
            wall_seconds=sum(fit.wall_seconds for fit in judged),
            peak_rss_bytes=peak_rss_bytes(),
            peak_device_bytes=peak_device_bytes() if fits else None,
            cpu_seconds=cpu_seconds(),
            effects=effects_of(judged),
            fits=tuple(fits),
            judged=None if number is None else numbers.index(number),
        )

    def _with_end(self, report: RunReport, end: ScriptEnd) -> RunReport:
        return attrs.evolve(
            report,
            notes=tuple(self._notes(end)),
            exit_status=end.status,
            script_error=end.error,
            out_of_memory=end.raised is not None and ran_out_of_memory(end.raised),
        )

    def _loop_was_read(self) -> None:
        """Tell the progress, stop for another run's turn, and end the run with its process at its
        last update.

        An exception would run the rest of the script, or be caught by it.
        """
        clock = self.own.clock
        self.own.tell_progress(self.tell)
        if clock.is_over:
            end = ScriptEnd(status=0)
            self._end_by(lambda: self._with_end(self.own.run_report(), end))
        if self._turn is not None and clock.warm and self._turn.is_over:
            self._turn.end()

    def _fits_are_done(self) -> bool:
        """Return whether the timed fits have ended: the fit that the recipe names, or all that
        began."""
        number = self.task.job.recipe.workload.fit
        if number is not None:
            return any(fit.number == number for fit in self.fits)
        return bool(self.fits) and len(self.fits) + self.empty_fits == self.session.calls

    def _notes(self, end: ScriptEnd) -> Iterator[str]:
        workload, own, patches = self.task.job.recipe.workload, self.own, self.session.patches
        cut = cut_in_words(workload)
        if cut is not None and not self.task.measured and not workload.has_own_loop:
            yield cut  # a measurement reports it itself
        if not self.fits and not own.clock.updates:
            yield self.why_nothing(end)
        if own.clock.updates and own.last_loss is None and self.task.measured:
            yield NOT_WATCHED
        seeding = self.session.seeding
        if seeding is not None and seeding.seen:
            yield seeding.in_words()
        if end.read_input:
            yield "the script read standard input, which is empty here"
        if self.empty_fits:
            yield f"{self.empty_fits} calls of fit() had no data and trained nothing"
        if patches.threads:
            yield f"fit() was called in a thread ({', '.join(sorted(patches.threads))})"
        if self.fits and (patches.updates or patches.batches_alone):
            yield "the script also trains outside of fit(), in a loop that is not measured"

    def _on_fit(self, workload: FitWorkload, started: int) -> Any:
        task = self.task
        if workload.data.steps_per_epoch() == 0:
            self.empty_fits += 1
            return workload.call.make(workload.call.callbacks, {})
        built = workload.built(task.job)
        pacing = pacing_of(task, built.run, self._turn, len(self.fits))
        fit, history = train_fit(workload, built, started, self.tell, pacing)
        self.fits.append(fit)
        judged = task.job.recipe.workload.fit in (None, workload.call.number)
        if task.save_to is not None and judged:
            self._last_model = built.stack.unwrap(built.model)
        return history


@attrs.define(eq=False)
class ScriptLook(ScriptRun[LookTask]):
    """A run that goes no further than the fit to examine, with which its process ends."""

    _seconds_to_fit: float = 0.0

    def _on_fit(self, workload: FitWorkload, started: int) -> Any:
        self.own.remove()
        self._seconds_to_fit = (started - self.began) / 1e9
        number = self.task.job.recipe.workload.fit or 1
        call = workload.call
        if call.number < number:
            # with the script's own callbacks, whose files it may load
            callbacks = [*call.callbacks, stopping_after(STEPS_OF_OTHERS)]
            history = call.make(callbacks, {}, verbose=0)
            lengthen(history, call, stopped=True)
            return history
        if workload.data.steps_per_epoch() == 0:
            raise WorkloadError(f"fit {call.number}: the training data are empty")

        def load(job: Job) -> FitWorkload:
            keras.utils.set_random_seed(job.seed)
            task = self.task
            if not isinstance(task, ReplayTask):
                return FitWorkload.of(self.session, call, ended=True)
            # where they are compared, all data are read
            short, ended = call.short(EPOCHS, task.batches), task.part != "training"
            return FitWorkload.of(self.session, short, ended=ended, batches=task.batches)

        if not self.task.stays:
            return self._end_here(self._examine(load))
        return self._serve(load, workload)

    def _serve(self, load: Load, workload: FitWorkload) -> NoReturn:
        """Examine the fit for this task, then for each that follows if it can be made again."""
        state: FitState | None
        try:
            state = FitState.of(workload)
        except Exception:  # a model may do anything; what is wrong with it shows in the look
            state = None
        answer = self._examine(load)
        if state is None:
            self._end_here(answer)
        state.note_parts()
        while True:
            self.tell(answer)
            answer = self._examine_next(state, load)

    def _examine_next(self, state: FitState, load: Load) -> Answer:
        """Wait for a task and return its answer: a failure, too, is one."""
        assert isinstance(self.tell, Parent)
        try:
            task = self.tell.next_task()
            assert isinstance(task, LookTask)
            task.job.folder.mkdir(parents=True, exist_ok=True)
            self.task = attrs.evolve(task, job=seen_by_tensorflow(task.job))
            state.restore()
            self.session.take(self.task.job)
            return self._examine(load)
        except Exception as error:  # of a plugin, as in a process of its own
            return failure_of(error)

    def at_the_end(self, end: ScriptEnd) -> Answer | None:
        """Return what the look found in a loop of the script's own, which has come to its end; None
        if there was none, or the script failed."""
        if self.own.clock.updates < 1 or end.error is not None or end.status:
            return None
        return None if self.session.calls else self._examine_loop()

    def _loop_was_read(self) -> None:
        """End the process once enough was seen of a loop of the script's own."""
        if self.own.is_known(whole=isinstance(self.task, PrepareTask)):
            why = self.why_nothing(ScriptEnd(status=0))
            self._end_by(lambda: self._examine_loop() or failure_of(WorkloadError(why)))

    def _examine_loop(self) -> Answer | None:
        """Return the result of the task for the script's own loop; None if that is refused."""
        task = self.task
        # a diagnosis finds out that there is one
        known = task.job.recipe.workload.has_own_loop or isinstance(task, DiagnoseTask)
        return self._answer(task.own_look, self.own) if task.own_look and known else None

    def _examine(self, load: Load) -> Answer:
        """Return the result of the task for a fit."""
        return self._answer(self.task.look, load)

    def _answer(self, look: str, of: Any) -> Answer:
        """Return the answer of a function of the task, a dry build with what is known of the
        script's start."""
        answer = cast(Answer, resolve_name(look)(self.task, self.tell, of))
        if isinstance(answer, Prepared):
            forks = not (self.imports.changed or self.hides)
            return attrs.evolve(answer, forks=forks, seconds_to_fit=self._seconds_to_fit)
        return answer


def carry_out(task: RunTask | LookTask, tell: Callable[[Message], None]) -> Answer:
    """Run the script for the task. Return the last message.

    :raises WorkloadError: if the fit of the task never came.
    :raises InputError: for a stack over several processes.
    """
    if task.job.runtime.builds_strategy_first:
        raise InputError(
            "the stack trains over several processes, and each of them would run the script; "
            "write a factory for it"
        )
    tell(ProcessStarted())
    if isinstance(task, RunTask):
        training = ScriptTraining(task, tell)
        return training.report(training.to_its_end())
    look = ScriptLook(task, tell)
    end = look.to_its_end()
    answer = look.at_the_end(end)
    if answer is None:
        raise WorkloadError(look.why_nothing(end))
    return answer
