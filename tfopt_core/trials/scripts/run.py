"""Run a script in its folder, with Keras patched, to its end."""

from __future__ import annotations

import abc
import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import attrs

from tfopt_core.errors import InputError, TfoptError, WorkloadError
from tfopt_core.hooks.own_loop import check_precision, reaching
from tfopt_core.lazy import keras
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.scripts.folders.private_folder import move_log_folders
from tfopt_core.scripts.importing import WhenImported, hides_modules
from tfopt_core.scripts.running import BOTH, ScriptEnd, run_script, why_nothing_trained
from tfopt_core.scripts.seeding import Seeding
from tfopt_core.scripts.session import Session
from tfopt_core.training.clock import running_ns
from tfopt_core.training.factory import module_file
from tfopt_core.training.messages import Message
from tfopt_core.training.runtime import apply_in_process, seen_by_tensorflow
from tfopt_core.trials.scripts.own_loop import LoopOfScript
from tfopt_core.workers.task import LookTask, RunTask, Task, failure_of

AnyTask = TypeVar("AnyTask", bound=Task)
OTHER_BACKEND = (
    'the script sets the Keras backend to "{}", and tfopt optimizes TensorFlow training only'
)


@attrs.define(eq=False)
class ScriptRun(abc.ABC, Generic[AnyTask]):
    """One run of the script. Subclasses define what happens at a fit.

    :param tell: called with the messages, including the last one.
    :param failure: the first error of tfopt itself, which the script may have caught.
    :param own: the training loop of the script's own, which has begun where it is watched.
    :param hides: whether modules beside the script hide others; a look finds that.
    :param imports: acts on the imports of TensorFlow and Keras.
    :param began: when Keras was imported, by `running_ns`.
    """

    task: AnyTask
    tell: Callable[[Message], None]
    failure: TfoptError | None = None
    own: LoopOfScript = attrs.field()
    hides: bool = False
    began: int = 0
    imports: WhenImported = attrs.field(init=False)

    @own.default
    def _unseen(self) -> LoopOfScript:
        session = Session(self.task.job, self._fit)
        return LoopOfScript(session=session, job=self.task.job, guard=self._noting)

    @imports.default
    def _watched(self) -> WhenImported:
        # Keras imports TensorFlow, where a script does not
        return WhenImported({
            "tensorflow": lambda: apply_in_process(self.task.job.runtime), "keras": self._begin,
        })  # fmt: skip

    @property
    def session(self) -> Session:
        """What applies the stack, from the import of Keras on."""
        return self.own.session

    def _enter_folder(self) -> Path:
        """Enter the folder that the script runs in. Return the script's path in it."""
        recipe = self.task.job.recipe
        workload, folder = recipe.workload, recipe.working_directory.resolve()
        if workload.module is not None:
            path = module_file(workload.module, folder)
        else:
            assert workload.script is not None
            path = (recipe.directory / workload.script).absolute()
        if self.task.private is not None:
            folder, path = self.task.private.path_of(folder), self.task.private.path_of(path)
        os.chdir(folder)
        # for shells, and for scripts that read the working directory from the environment
        os.environ["PWD"] = str(folder)
        return path

    def to_its_end(self) -> ScriptEnd:
        """Run the script in its folder and return how it ended."""
        path = self._enter_folder()
        workload = self.task.job.recipe.workload
        if isinstance(self.task, LookTask):
            beside = path.parent if workload.module is None else os.getcwd()
            self.hides = hides_modules(os.path.realpath(beside))
        with self.imports:
            end = run_script(path, workload.args, workload.module, debug=self.task.debug)
        self._noting(self.own.at_the_end)
        self.own.remove()
        self.session.end()
        if self.failure is not None:
            raise self.failure
        return end

    def why_nothing(self, end: ScriptEnd) -> str:
        """Return why the fit to examine never came."""
        backend = os.environ.get("KERAS_BACKEND", "tensorflow")
        if backend != "tensorflow":
            return OTHER_BACKEND.format(backend)
        number = self.task.job.recipe.workload.fit
        calls, patches = self.session.calls, self.session.patches
        if number is not None and calls and end.error is None:
            return f"the script calls fit {calls} times only, and fit = {number} is asked for"
        return why_nothing_trained(
            end, fits=calls, updates=patches.updates, batches_alone=patches.batches_alone,
            tapes=self.own.tapes,
        )  # fmt: skip

    # While the script runs

    def _begin(self) -> None:
        """Patch Keras once it is imported, before any model is built."""
        self.began = running_ns()
        self._noting(functools.partial(_check_backend, keras.config.backend()))
        # Keras is imported, and TensorFlow says which GPUs there are
        self.task = attrs.evolve(self.task, job=seen_by_tensorflow(self.task.job))
        job, session, own = self.task.job, self.session, self.own
        if not (isinstance(self.task, RunTask) and self.task.own_seeds):
            session.seeding = Seeding()
        has_own_loop = job.recipe.workload.has_own_loop
        # the other plugins of the stack cannot reach a loop of the script's own
        plugins = reaching(job.plugins) if has_own_loop else job.plugins
        session.job = attrs.evolve(job, plugins=plugins)
        self._noting(session.begin)
        if has_own_loop:
            self._noting(functools.partial(check_precision, session.precision))
        if has_own_loop or isinstance(self.task, LookTask):
            # a look does not know the loop yet, and may come to a fit
            own.job = job if has_own_loop else attrs.evolve(job, plugins=())
            own.resolves = isinstance(self.task, LookTask)
            own.begin()
            own.clock.on_read = functools.partial(self._noting, self._loop_was_read)
            if self.task.measured:
                own.clock.limit = job.recipe.workload.max_steps

    def _fit(self, workload: FitWorkload, started: int) -> Any:
        def fit() -> Any:
            if self.task.job.recipe.workload.has_own_loop:
                raise WorkloadError(BOTH)
            return self._on_fit(workload, started)

        if self.task.private is not None:
            move_log_folders(workload.call.callbacks, self.task.private)
        return self._noting(fit)

    def _loop_was_read(self) -> None:
        """Handle a reading of the updates of the script's own loop."""

    @abc.abstractmethod
    def _on_fit(self, workload: FitWorkload, started: int) -> Any:
        """Handle a call of `fit`. Return its result for the script.

        :param started: `running_ns` when the script called it.
        """

    def _end_here(self, message: Message) -> NoReturn:
        """Send the last message and end the process at once.

        The script might catch an exception.
        """
        self.tell(message)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)

    def _end_by(self, make: Callable[[], Message]) -> NoReturn:
        """Make the last message and end the process; an error of making it is the message."""
        try:
            message = make()
        except Exception as error:  # the script might catch it
            message = failure_of(error)
        self._end_here(message)

    def _noting(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except TfoptError as error:
            self.failure = self.failure or error
            if threading.current_thread() is not threading.main_thread():
                # the main thread may wait for this one for ever
                self._end_here(failure_of(error))
            raise


def _check_backend(backend: str) -> None:
    if backend != "tensorflow":
        raise InputError(OTHER_BACKEND.format(backend))
