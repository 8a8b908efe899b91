"""The tasks that a worker process may be given, one class for each kind of work. No TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs

from tfopt_core.errors import TfoptError, describe, ran_out_of_memory
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Failure, OthersServed
from tfopt_core.records.program import Exported
from tfopt_core.records.replay import Replayed
from tfopt_core.records.run import RunReport
from tfopt_core.training.checkpoints.config import CheckpointConfig
from tfopt_core.training.job import Job
from tfopt_core.training.scripts.overlay_folder import OverlayMounts


@attrs.frozen(kw_only=True)
class Task:
    """One job for one process; its subclasses say what is done with it.

    :param function: what the process calls, as "module:function"; it is given the task and what it
        sends messages by, and returns the last message.
    :param alike: whether all variants start from the same environment.
    :param overlay: the mounts of a script's private folder, behind which the process starts; None
        for a copy of the folder, or none.
    :param why_no_overlay: why this machine mounts none.
    """

    # the classes of the last message of a process that did what it was asked to
    answers: ClassVar[tuple[type, ...]] = ()

    job: Job
    function: str
    alike: bool = True
    debug: bool = False
    overlay: OverlayMounts | None = None
    why_no_overlay: str = ""

    @property
    def is_private(self) -> bool:
        """Whether a script writes into a private folder."""
        workload = self.job.recipe.workload
        return workload.script is not None and workload.isolate is not False


@attrs.frozen(kw_only=True)
class RunTask(Task):
    """Train.

    :param save_to: where the trained model goes, None to keep none.
    :param longest_seconds: the run ends once its step time is known, or after this many seconds of
        timed steps; None trains to the end.
    :param adapt: find the fastest exact loop in the first seconds, and keep it.
    :param checkpoints: where the run writes checkpoints, and from which it resumes; None for none.
    :param measured: whether the run is one of a measurement, and not a training of the user's own:
        a script writes into a private folder, and the end may be cut short.
    :param own_seeds: whether a script's own seeds stay, and none are set for it.
    :param facts: what must be the same for all processes of the training, by name.
    """

    # one that only serves the others trains nothing
    answers: ClassVar[tuple[type, ...]] = (RunReport, OthersServed)

    save_to: Path | None = None
    longest_seconds: float | None = None
    adapt: bool = False
    checkpoints: CheckpointConfig | None = None
    measured: bool = True
    own_seeds: bool = False
    facts: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_private(self) -> bool:
        """Whether a script writes into a private folder: in a measurement alone."""
        return self.measured and super().is_private


@attrs.frozen(kw_only=True)
class LookTask(Task):
    """Look at the workload of the job, and train nothing that is kept.

    :param look: what the process calls once the workload is loaded, as "module:function"; it is
        given the task, what it sends messages by, and what loads the workload of a job.
    """

    look: str


@attrs.frozen(kw_only=True)
class PrepareTask(LookTask):
    """Resolve the stack's settings and build everything up to `compile`, untimed.

    :param estimate: also time some steps without the stack.
    :param quick: also time some steps with the stack.
    :param detail: also look at each stage of the data and at the memory of a run.
    """

    answers: ClassVar[tuple[type, ...]] = (Prepared,)

    estimate: bool = False
    quick: bool = False
    detail: bool = False


@attrs.frozen(kw_only=True)
class ReplayTask(LookTask):
    """Train a few fixed batches for the equivalence certificate, untimed.

    :param replay_folder: where both sides read and write what is compared.
    """

    answers: ClassVar[tuple[type, ...]] = (Replayed,)

    replay_folder: Path


@attrs.frozen(kw_only=True)
class DiagnoseTask(LookTask):
    """Take a step apart.

    :param asked: the plugins that are asked what they would do; each can be imported.
    :param quick: take seconds, and compare loops within the training too.
    """

    answers: ClassVar[tuple[type, ...]] = (Diagnosed,)

    asked: tuple[str, ...]
    quick: bool = False


@attrs.frozen(kw_only=True)
class ExportTask(PrepareTask):
    """Resolve the stack's settings, and write the training down as a program."""

    answers: ClassVar[tuple[type, ...]] = (Exported,)


def named_function(name: str) -> Callable[..., Any]:
    """Import and return the function that is named "module:function"."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def failure_of(error: BaseException) -> Failure:
    """Return the last message of a process that failed; expected errors explain themselves."""
    expected = isinstance(error, TfoptError)
    return Failure(
        error=type(error).__name__,
        message=str(error) if expected else describe(error),
        exit_code=error.exit_code if isinstance(error, TfoptError) else 3,
        out_of_memory=ran_out_of_memory(error),
    )
