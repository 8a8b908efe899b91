"""Run a script up to one of its fits, and examine that fit."""

from __future__ import annotations

import functools
from typing import Any, NoReturn, cast

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Answer
from tfopt_core.training.job import Job
from tfopt_core.training.replay.data import EPOCHS
from tfopt_core.training.scripts.call import lengthen
from tfopt_core.training.scripts.fit_workload import FitWorkload
from tfopt_core.training.scripts.fitting import FitState
from tfopt_core.training.scripts.limits import stopping_after
from tfopt_core.training.scripts.running import ScriptEnd
from tfopt_core.trials.run import Load
from tfopt_core.trials.scripts.run import ScriptRun, on_this_machine
from tfopt_core.workers.task import (
    LookTask,
    Parent,
    PrepareTask,
    ReplayTask,
    failure_of,
    named_function,
)

# The steps of each fit before the one to examine.
STEPS_OF_OTHERS = 2


@attrs.define(eq=False)
class ScriptLook(ScriptRun[LookTask]):
    """A run that goes no further than the fit to examine, with which its process ends."""

    def _on_fit(self, workload: FitWorkload, started: int) -> Any:
        if self.own is not None:
            self.own.loop.remove()
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
            import keras

            keras.utils.set_random_seed(job.seed)
            task, of = self.task, functools.partial(FitWorkload.of, self.session, before=workload)
            if not isinstance(task, ReplayTask):
                return of(call, workload.compiled, task.job.seed, ended=True)
            return of(
                call.short(EPOCHS, task.batches), workload.compiled, task.job.seed,
                # where they are compared, all data are read
                ended=task.part != "training", batches=task.batches,
            )  # fmt: skip

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
            self.tell_in_words(answer)
            answer = self._examine_next(state, load)

    def _examine_next(self, state: FitState, load: Load) -> Answer:
        """Wait for a task and return its answer: a failure, too, is one."""
        assert isinstance(self.tell, Parent)
        try:
            task = self.tell.next_task()
            assert isinstance(task, LookTask)
            task.job.folder.mkdir(parents=True, exist_ok=True)
            # the process works on in the private folder of its first task
            self.task = on_this_machine(attrs.evolve(task, private=self.task.private))
            state.restore()
            self.session.take(self.task.job)
            return self._examine(load)
        except Exception as error:  # of a plugin, as in a process of its own
            return failure_of(error)

    def at_the_end(self, end: ScriptEnd) -> Answer | None:
        """Return what the look found in a loop of the script's own, which has come to its end; None
        if there was none, or the script failed."""
        own = self.own
        if own is None or own.loop.clock.updates < 1 or end.error is not None or end.status:
            return None
        if self.session.calls:
            return None
        return self._examine_loop()

    def _loop_was_read(self) -> None:
        """End the process once enough was seen of a loop of the script's own."""
        own = self.own
        assert own is not None
        if own.is_known(whole=isinstance(self.task, PrepareTask)):
            why = self.why_nothing(ScriptEnd(status=0))
            self._end_by(lambda: self._examine_loop() or failure_of(WorkloadError(why)))

    def _examine_loop(self) -> Answer | None:
        """Return the result of the task for the script's own loop; None if that is refused."""
        task = self.task
        if not task.own_look:
            return None
        found = named_function(task.own_look)(task, self.tell_in_words, self.own)
        return None if found is None else self._with_environment(cast(Answer, found))

    def _examine(self, load: Load) -> Answer:
        answer = cast(Answer, named_function(self.task.look)(self.task, self.tell_in_words, load))
        return self._with_environment(answer)

    def _with_environment(self, answer: Answer) -> Answer:
        """Return the answer with what is known of the script's start, if it is a dry build."""
        if isinstance(answer, Prepared):
            return attrs.evolve(answer, forks=not (self.early.changed or self.hiding))
        return answer
