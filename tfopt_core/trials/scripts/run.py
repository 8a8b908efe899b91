"""One run of a script: its folder, the settings made in it, and how it ends."""

from __future__ import annotations

import abc
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import attrs

from tfopt_core.errors import InputError, TfoptError
from tfopt_core.records.messages import Message
from tfopt_core.training.job import Job
from tfopt_core.training.scripts.complaints import Seen, why_nothing_trained
from tfopt_core.training.scripts.importing import WhenImported
from tfopt_core.training.scripts.running import ScriptEnd, run_script
from tfopt_core.training.scripts.seeding import Seeding
from tfopt_core.workers.channel import reworded
from tfopt_core.workers.task import Task, failure_of

if TYPE_CHECKING:
    from tfopt_core.training.scripts.fit_workload import FitWorkload
    from tfopt_core.training.scripts.private_folder import PrivateFolder

AnyTask = TypeVar("AnyTask", bound=Task)

PRIVATE = "work"


@attrs.define(eq=False)
class ScriptRun(abc.ABC, Generic[AnyTask]):
    """One run of the script, and what it has done so far. What happens at a fit, a subclass says.

    :param tell: takes the messages, the last one too.
    :param failure: what tfopt itself complained of, whatever the script made of it.
    """

    task: AnyTask
    tell: Callable[[Message], None]
    private: PrivateFolder | None = None
    seeding: Seeding | None = None
    failure: TfoptError | None = None
    session: Any = None
    _runtime_is_set: bool = False

    @property
    def in_private_folder(self) -> bool:
        """Whether the script runs in a private copy of its folder, unless the recipe forbids it."""
        return True

    @property
    def own_seeds(self) -> bool:
        """Whether the script's own seeds stay, and none are set for it."""
        return False

    @contextlib.contextmanager
    def placed(self) -> Iterator[Path]:
        """In the folder that the script runs in: the user's own, or a private copy of it."""
        recipe = self.task.job.recipe
        assert recipe.workload.script is not None
        path = (recipe.directory / recipe.workload.script).absolute()
        folder = recipe.working_directory.resolve()
        if not self.in_private_folder or recipe.workload.isolate is False:
            os.chdir(folder)
            yield path
            return
        from tfopt_core.training.scripts.private_folder import PrivateFolder

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
        """Return a message with the user's own paths."""
        return text if self.private is None else self.private.in_words(text)

    def why_nothing(self, end: ScriptEnd) -> str:
        """Return why the fit that was to be looked at never came."""
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

        from tfopt_core.training.scripts.session import Session

        self._tensorflow_imported()  # (who imports which, and when, is TensorFlow's own affair)
        self._noting(functools.partial(_check_backend, keras.config.backend()))
        if not self.own_seeds:
            self.seeding = Seeding()
        self.session = Session(self._job(), self._guarded(self._on_fit), self.seeding)
        self._noting(self.session.begin)

    def _job(self) -> Job:
        """Return what the script's fits are built by; Keras is imported."""
        return self.task.job

    @abc.abstractmethod
    def _on_fit(self, workload: FitWorkload, started: int) -> Any:
        """Do what replaces a call of `fit`. Return what the script gets back.

        :param started: `perf_counter_ns` when the script called it.
        """

    def tell_in_words(self, message: Message) -> None:
        """Send a message with the user's own paths, wherever they stand in it."""
        self.tell(reworded(message, self.in_words))

    def _end_here(self, message: Message) -> NoReturn:
        """Send the last message and end the process, whatever the script would do next: it might
        catch any exception."""
        self.tell_in_words(message)
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
        self._end_here(failure_of(error))


def _check_backend(backend: str) -> None:
    if backend != "tensorflow":
        raise InputError(_other_backend(backend))


def _other_backend(backend: str) -> str:
    return (
        f'the script sets the Keras backend to "{backend}", and tfopt optimizes TensorFlow '
        "training only"
    )
