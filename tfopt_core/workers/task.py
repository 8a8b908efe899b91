"""The tasks of worker processes, one class for each kind of work. No TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs

from tfopt_core.errors import TfoptError, WorkloadError, describe, ran_out_of_memory
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import Failure, OthersServed
from tfopt_core.records.replay import Replayed, ReplayPart
from tfopt_core.records.run import RunReport
from tfopt_core.training.job import CheckpointConfig, Job
from tfopt_core.training.scripts.private_folder import PrivateFolder

# The functions of worker processes; see `Task`.
FACTORY = "tfopt_core.trials.run:carry_out"
SCRIPT = "tfopt_core.trials.scripts:carry_out"


@attrs.frozen(kw_only=True)
class Task:
    """One job for one process; a subclass is one kind of work.

    :param function: the function that the process calls, as "module:function"; it takes the task
        and a function that sends messages, and returns the last message.
    :param alike: whether all variants start from the same environment.
    :param private: the private folder of a script; None for none.
    :param forks: whether a script may run in a fork of a process that has imported TensorFlow.
    """

    # the classes of the last message of a process that succeeded
    answers: ClassVar[tuple[type, ...]] = ()

    job: Job
    function: str
    alike: bool = True
    debug: bool = False
    private: PrivateFolder | None = None
    forks: bool = False

    @property
    def is_private(self) -> bool:
        """Whether a script writes into a private folder."""
        workload = self.job.recipe.workload
        return workload.is_script and workload.isolate is not False

    @property
    def is_limited(self) -> bool:
        """Whether a script's own loop ends after the updates that the recipe names."""
        return True


@attrs.frozen(kw_only=True)
class RunTask(Task):
    """Train one run.

    :param save_to: where the trained model goes, None to keep none.
    :param warm_seconds: how long the run trains behind its start, which is its first warm step or
        the end of a short first epoch; None trains to the end. A loop of a script's own ends where
        the recipe says.
    :param in_turns: whether the run stops for another one's turn, again and again.
    :param checkpoints: where the run writes checkpoints, and from which it resumes; None for none.
    :param measured: whether the run is one of a measurement, and not a training of the user's own:
        a script writes into a private folder, and the end may be cut short.
    :param own_seeds: whether a script's own seeds stay, and none are set for it.
    :param facts: what must be the same for all processes of the training, by name.
    :param expendable: whether the run is made for its peak memory alone: it ends after its first
        warm steps, and the kernel ends it before other processes where memory runs out.
    """

    # a process that only serves the others trains nothing
    answers: ClassVar[tuple[type, ...]] = (RunReport, OthersServed)

    save_to: Path | None = None
    warm_seconds: float | None = None
    in_turns: bool = False
    checkpoints: CheckpointConfig | None = None
    measured: bool = True
    own_seeds: bool = False
    facts: Mapping[str, str] = attrs.field(factory=dict)
    expendable: bool = False

    @property
    def is_private(self) -> bool:
        """Whether a script writes into a private folder: only in a measurement."""
        return self.measured and super().is_private

    @property
    def is_limited(self) -> bool:
        """Whether a script's own loop ends after some updates: only in a measurement."""
        return self.measured


@attrs.frozen(kw_only=True)
class LookTask(Task):
    """Examine the workload of the job, without a training that is kept.

    :param look: the function that examines it, as "module:function"; it takes the task, a function
        that sends messages, and a function that loads the workload of a job.
    :param stays: whether the process waits for another task afterwards, if it can.
    :param follows: whether the task is given to a process that has carried out another one.
    :param own_look: the function that examines a training loop of a script's own, likewise; it
        takes the task, a function that sends messages, and what was seen of the loop. "" refuses
        such a script.
    """

    look: str
    stays: bool = False
    follows: bool = False
    own_look: str = ""


@attrs.frozen(kw_only=True)
class PrepareTask(LookTask):
    """Resolve the stack's settings and build everything up to `compile`, untimed.

    :param estimate: also time some steps without the stack.
    :param quick: also time some steps with the stack.
    """

    answers: ClassVar[tuple[type, ...]] = (Prepared,)

    estimate: bool = False
    quick: bool = False


@attrs.frozen(kw_only=True)
class ReplayTask(LookTask):
    """Train two short epochs for the equivalence certificate, untimed.

    :param part: what is replayed.
    :param replay_folder: where all sides read and write what is compared.
    :param batches: the most batches of an epoch; None for all.
    :param against: the variant with which the final state is compared; "" for none.
    """

    answers: ClassVar[tuple[type, ...]] = (Replayed,)

    part: ReplayPart
    replay_folder: Path
    batches: int | None = None
    against: str = ""


@attrs.frozen(kw_only=True)
class DiagnoseTask(LookTask):
    """Measure the parts of a step.

    :param asked_plugins: the plugins to ask for suggestions; each can be imported.
    :param quick: take seconds, and compare loops within the training too.
    """

    answers: ClassVar[tuple[type, ...]] = (Diagnosed,)

    asked_plugins: tuple[str, ...]
    quick: bool = False


def named_function(name: str) -> Callable[..., Any]:
    """Import and return the function of a name "module:function"."""
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
        option=error.option if isinstance(error, WorkloadError) else "",
    )
