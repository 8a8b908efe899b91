"""What a process of ours does with a script: trains it, or takes one of its fits apart."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from tfopt_core.errors import InputError, TfoptError, WorkloadError
from tfopt_core.measure.fits_told import result_of
from tfopt_core.measure.task import Task, error_message
from tfopt_core.training.job import Job
from tfopt_core.training.script.complaints import Seen, why_nothing_trained
from tfopt_core.training.script.importing import WhenImported
from tfopt_core.training.script.limits import cut_in_words
from tfopt_core.training.script.running import ScriptEnd, run_script
from tfopt_core.training.script.seeding import Seeding

if TYPE_CHECKING:
    from tfopt_core.training.script.private_folder import PrivateFolder

Send = Callable[[dict[str, Any]], None]
Load = Callable[[Job], Any]

PRIVATE = "work"
# A fit before the one that is looked at is only entered.
STEPS_OF_OTHERS = 2


def carry_out(task: Task, send: Send) -> dict[str, Any]:
    """Run the script for what the task asks; the final message.

    :raises WorkloadError: for a script that gives nothing to look at.
    :raises InputError: for a stack over several processes.
    """
    if task.job.runtime.builds_strategy_first:
        raise InputError(
            "the stack trains over several processes, which each would run the script; write a "
            "factory for it"
        )
    send({"type": "started"})
    script = ScriptRun(task, send)
    with script.placed() as path:
        end = script.to_its_end(path)
    if task.kind == "run":
        return {"type": "result", "run": script.result(end)}
    raise WorkloadError(script.in_words(script.why_nothing(end)))


@attrs.define(eq=False)
class ScriptRun:
    """One run of the script, and what it has done so far."""

    task: Task
    send: Send
    private: PrivateFolder | None = None
    seeding: Seeding | None = None
    fits: list[Any] = attrs.field(factory=list)
    empty_fits: int = 0
    failure: TfoptError | None = None
    session: Any = None
    _last_model: Any = None
    _runtime_is_set: bool = False

    @contextlib.contextmanager
    def placed(self) -> Iterator[Path]:
        """In the folder that the script runs in: the user's own, or a private copy of it."""
        recipe = self.task.job.recipe
        assert recipe.workload.script is not None
        path = (recipe.directory / recipe.workload.script).absolute()
        folder = recipe.working_directory.resolve()
        _forget_own_paths()
        if not self.task.isolate or recipe.workload.isolate is False:
            os.chdir(folder)
            yield path
            return
        from tfopt_core.training.script.private_folder import PrivateFolder

        private = self.private = PrivateFolder.make(folder, self.task.job.folder / PRIVATE)
        private.enter()
        try:
            yield private.path_of(path.resolve())
        finally:
            private.leave()

    def to_its_end(self, path: Path) -> ScriptEnd:
        """Run it. What tfopt itself complains of counts, whatever the script made of it."""
        with WhenImported({"tensorflow": self._tensorflow_imported, "keras": self._begin}):
            end = run_script(path, self.task.job.recipe.workload.args)
        if self.session is not None:
            self.session.end()
        if self.failure is not None:
            raise self.failure
        return end

    def in_words(self, text: str) -> str:
        """A message with the user's own paths."""
        return text if self.private is None else self.private.in_words(text)

    def why_nothing(self, end: ScriptEnd) -> str:
        """Why the fit that was to be looked at never came."""
        backend = os.environ.get("KERAS_BACKEND", "tensorflow")
        if backend != "tensorflow":
            return _other_backend(backend)
        asked = self.task.job.recipe.workload.fit
        calls = 0 if self.session is None else self.session.calls
        if asked is not None and calls and end.error is None:
            return f"the script calls fit {calls} times only, and fit = {asked} is asked for"
        seen = Seen(fits=calls)
        if self.session is not None:
            surface = self.session.surface
            seen = Seen(fits=calls, updates=surface.updates, batches_alone=surface.batches_alone)
        return why_nothing_trained(end, seen)

    def result(self, end: ScriptEnd) -> dict[str, Any]:
        """The run's figures as plain data.

        :raises WorkloadError: if nothing was trained, in a run that is measured.
        """
        if not self.fits and self.task.isolate:
            raise WorkloadError(self.in_words(self.why_nothing(end)))
        if self.task.save_to is not None and self._last_model is not None:
            self._last_model.save(self.task.save_to)
        said = result_of(self.task.job, self.fits, end)
        said["notes"] = [self.in_words(note) for note in self._notes(end)]
        if end.error is not None:
            said["script_error"] = self.in_words(end.error)
        if self.private is not None:
            said["written"] = [f"{w.path} ({w.change})" for w in self.private.written()]
        return said

    def _notes(self, end: ScriptEnd) -> Iterator[str]:
        cut = cut_in_words(self.task.job.recipe.workload)
        if cut is not None and not self.task.isolate:
            yield cut  # (a measurement says so itself)
        if not self.fits:
            yield self.why_nothing(end)
        seeding = None if self.seeding is None else self.seeding.in_words()
        if seeding:
            yield seeding
        if end.read_input:
            yield "the script asked for standard input, which it has none of here"
        surface = None if self.session is None else self.session.surface
        if self.empty_fits:
            yield f"{self.empty_fits} calls of fit() had no data and trained nothing"
        if surface is not None and surface.threads:
            yield f"fit() was called in a thread ({', '.join(sorted(surface.threads))})"
        if surface is not None and self.fits and (surface.updates or surface.batches_alone):
            yield "the script also trains outside of fit(), in a loop that is not measured"
        if self.private is not None and self.private.outside:
            shown = ", ".join(self.private.outside[:5])
            yield f"the script writes outside of its folder, which is not kept apart: {shown}"
        changed = () if self.private is None else self.private.changed_originals()
        if changed:
            shown = ", ".join(map(str, changed[:5]))
            yield f"files of the folder itself were changed, by another program perhaps: {shown}"

    # What happens while it runs.

    def _tensorflow_imported(self) -> None:
        if self._runtime_is_set:
            return
        self._runtime_is_set = True
        from tfopt_core.training.runtime import apply_in_process

        apply_in_process(self.task.job.runtime)

    def _begin(self) -> None:
        """Keras is imported, and no model is built yet."""
        import keras

        from tfopt_core.training.script.session import Session

        self._tensorflow_imported()  # (who imports which, and when, is TensorFlow's own affair)

        self._noting(functools.partial(_check_backend, keras.config.backend()))
        job = self.task.job
        if not self.task.own_seeds:
            self.seeding = Seeding()
        if self.task.kind != "run":
            from tfopt_core.training.devices import as_tensorflow_sees

            job = attrs.evolve(job, machine=as_tensorflow_sees(job.machine))
        on_fit = self._train if self.task.kind == "run" else self._look
        self.session = Session(job, self._guarded(on_fit), self.seeding)
        self._noting(self.session.begin)

    def _train(self, workload: Any, started: int) -> Any:
        from tfopt_core.measure.explore import Explorer
        from tfopt_core.measure.project import step_time_is_known
        from tfopt_core.training.script.fitting import train_fit

        task = self.task
        if workload.data.steps_per_epoch() == 0:
            self.empty_fits += 1
            return workload.call.make(workload.call.callbacks, {})
        built = workload.built(task.job)
        cut = task.stop_when_steady and built.run.steps_per_epoch is not None
        known = step_time_is_known if cut else None
        adapt = functools.partial(Explorer, seed=task.job.seed) if task.adapt else None
        fit, history = train_fit(workload, built, started, self.send, known, adapt)
        self.fits.append(fit)
        judged = task.job.recipe.workload.fit in (None, workload.call.number)
        if task.save_to is not None and judged:
            self._last_model = built.stack.unwrap(built.model)
        return history

    def _look(self, workload: Any, started: int) -> Any:
        from tfopt_core.training.script.fit_workload import of_call
        from tfopt_core.training.script.stopping import stopping_after

        asked = self.task.job.recipe.workload.fit or 1
        call = workload.call
        if call.number < asked:
            # with the script's own callbacks: it may load what they have saved
            return call.make([*call.callbacks, stopping_after(STEPS_OF_OTHERS)], {}, verbose=0)
        if workload.data.steps_per_epoch() == 0:
            raise WorkloadError(f"fit {call.number}: the training data are empty")

        def make() -> Any:
            return type(workload).of(
                self.session, workload.call, workload.compiled, self.task.job.seed, ended=True
            )

        return self._end_here(self._looked_at(of_call(make)))

    def _looked_at(self, load: Load) -> dict[str, Any]:
        task = self.task
        if task.kind == "prepare":
            from tfopt_core.measure.prepare import prepare

            return {"type": "prepared", "prepared": prepare(task, load)}
        if task.kind == "replay":
            from cattrs import unstructure

            from tfopt_core.training.replay import replay

            assert task.replay_folder is not None
            replayed = replay(task.job, task.replay_folder, load)
            return {"type": "replayed", "replayed": unstructure(replayed)}
        from tfopt_core.measure.diagnose import diagnose

        def send(message: dict[str, Any]) -> None:
            self.send(self._told(message))

        return dict(self._told({"type": "diagnosed", "diagnosed": diagnose(task, send, load)}))

    def _told(self, said: Any) -> Any:
        """Plain data with the user's own paths, wherever they stand in it."""
        if isinstance(said, str):
            return self.in_words(said)
        if isinstance(said, dict):
            return {key: self._told(value) for key, value in said.items()}
        if isinstance(said, list | tuple):
            return [self._told(value) for value in said]
        return said

    def _end_here(self, message: dict[str, Any]) -> NoReturn:
        """Say the last word and end the process, whatever the script would do next: it might catch
        any exception."""
        self.send(message)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def _guarded(self, on_fit: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        def guarded(workload: Any, started: int) -> Any:
            return self._noting(lambda: on_fit(workload, started))

        return guarded

    def _noting(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except TfoptError as error:
            self.failure = self.failure or error
            if threading.current_thread() is not threading.main_thread():
                # the main thread may wait for this one for ever
                self._say_failure_and_end(error)
            raise

    def _say_failure_and_end(self, error: TfoptError) -> NoReturn:
        self._end_here(dict(self._told(error_message(error))))


def _check_backend(backend: str) -> None:
    if backend != "tensorflow":
        raise InputError(_other_backend(backend))


def _other_backend(backend: str) -> str:
    return (
        f'the script sets the Keras backend to "{backend}", and tfopt optimizes TensorFlow '
        "training only"
    )


def _forget_own_paths() -> None:
    """`python script.py` imports from the script's folder, not from where tfopt was started."""
    here = os.getcwd()
    while sys.path and sys.path[0] in ("", here):
        del sys.path[0]
