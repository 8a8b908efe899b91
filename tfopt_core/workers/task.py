"""The tasks of worker processes, and the private socket that carries them and the messages.

No TensorFlow.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
from cattrs import Converter, transform_error

from tfopt_core.errors import TfoptError, WorkloadError, message_of, ran_out_of_memory
from tfopt_core.scripts.folders.private_folder import PrivateFolder
from tfopt_core.training.job import CheckpointConfig, Job
from tfopt_core.training.messages import Answer, Message
from tfopt_core.training.replay.data import ReplayPart

# The functions of worker processes; see `Task`.
FACTORY = "tfopt_core.trials.run:carry_out"
SCRIPT = "tfopt_core.trials.scripts.work:carry_out"
TYPE = "type"
# The most characters shown of an unknown message, and the most problems of a malformed one.
SHOWN_CHARACTERS, SHOWN_PROBLEMS = 80, 3

# It writes the code for a class when its first message comes: a tagged union of cattrs would write
# that of all classes, which takes each process 45 ms at its start.
_converter = Converter(forbid_extra_keys=True)


@attrs.frozen(kw_only=True)
class Task:
    """One job for one process; a subclass is one kind of work.

    :param measured: whether it is of a measurement, and no training of the user's own: a script
        writes into a private folder, its own loop ends after the updates that the recipe names, and
        the end may be cut short.
    :param private: the private folder of a script; None for none.
    :param forks: whether it may run in a fork of a process that has imported TensorFlow: a script
        sets nothing before that, and all variants start from the same environment. The forks of
        two processes would differ in the places of code in memory, in every pair alike.
    """

    job: Job
    debug: bool = False
    measured: bool = True
    private: PrivateFolder | None = None
    forks: bool = False

    @property
    def function(self) -> str:
        """The function that the process calls, as "module:function"; it takes the task and a
        function that sends messages, and returns the last message."""
        return SCRIPT if self.job.recipe.workload.is_script else FACTORY

    @property
    def is_private(self) -> bool:
        """Whether a script writes into a private folder."""
        workload = self.job.recipe.workload
        return self.measured and workload.is_script and workload.isolate is not False


@attrs.frozen(kw_only=True)
class RunTask(Task):
    """Train one run.

    :param save_to: where the trained model goes, None to keep none.
    :param warm_seconds: how long the run trains after its start, which is its first warm step or
        the end of a short first epoch; None trains to the end. A loop of a script's own ends where
        the recipe says.
    :param fit_seconds: the same for each fit of a script, as far as they are known.
    :param in_turns: whether the run stops for another one's turn, again and again.
    :param checkpoints: where the run writes checkpoints, and from which it resumes; None for none.
    :param own_seeds: whether a script's own seeds stay, and none are set for it.
    :param facts: what must be the same for all processes of the training, by name.
    :param expendable: whether the run is made for its peak memory alone: it ends after its first
        warm steps, and the kernel ends it before other processes where memory runs out.
    """

    save_to: Path | None = None
    warm_seconds: float | None = None
    fit_seconds: tuple[float, ...] = ()
    in_turns: bool = False
    checkpoints: CheckpointConfig | None = None
    own_seeds: bool = False
    facts: Mapping[str, str] = attrs.field(factory=dict)
    expendable: bool = False


@attrs.frozen(kw_only=True)
class LookTask(Task):
    """Examine the workload of the job, without a training that is kept.

    :cvar look: the function that examines it, as "module:function"; it takes the task, a function
        that sends messages, and a function that loads the workload of a job.
    :cvar own_look: the function that examines a training loop of a script's own, likewise; it
        takes the task, a function that sends messages, and what was seen of the loop. "" refuses
        such a script.
    :param stays: whether the process waits for another task afterwards, if it can.
    :param follows: whether the task is given to a process that has carried out another one.
    """

    look: ClassVar[str]
    own_look: ClassVar[str] = ""

    stays: bool = False
    follows: bool = False


@attrs.frozen(kw_only=True)
class PrepareTask(LookTask):
    """Resolve the stack's settings and build everything up to `compile`, untimed.

    :param estimate: also time some steps without the stack.
    :param quick: also time some steps with the stack.
    """

    look = "tfopt_core.trials.dry_build:prepare"
    own_look = "tfopt_core.trials.scripts.own_loop:prepare_loop"

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

    look = "tfopt_core.trials.replay:replay"

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

    look = "tfopt_core.diagnosis.work:diagnose"
    own_look = "tfopt_core.diagnosis.work:diagnose_loop"

    asked_plugins: tuple[str, ...]
    quick: bool = False


@attrs.frozen
class ProcessStarted(Message):
    """The process has read its task. That of a factory has also opened TensorFlow's devices; a
    script may still choose them."""


@attrs.frozen
class TurnOver(Message):
    """The turn of the training is over: the process with this ID is about to stop itself."""

    pid: int


@attrs.frozen
class OthersServed(Answer):
    """The process served the others of its cluster, which have ended; it trained nothing."""


@attrs.frozen
class CannotMount(Answer):
    """The process is a fork that could not mount the overlay of its private folder: a new process
    does the task instead."""


@attrs.frozen(kw_only=True)
class Failure(Answer):
    """The process failed.

    :param error: the name of the exception's class.
    :param message: what is wrong; of an unexpected exception, what it is and where it was raised.
    :param exit_code: the exit code of tfopt.
    :param out_of_memory: whether memory ran out, on the machine or a device.
    :param option: the option of the workload that is wrong, "" if it is none of them.
    """

    error: str
    message: str
    exit_code: int
    out_of_memory: bool = False
    option: str = ""


def failure_of(error: BaseException) -> Failure:
    """Return the last message of a process that failed; expected errors explain themselves."""
    return Failure(
        error=type(error).__name__,
        message=message_of(error),
        exit_code=error.exit_code if isinstance(error, TfoptError) else 3,
        out_of_memory=ran_out_of_memory(error),
        option=error.option if isinstance(error, WorkloadError) else "",
    )


@attrs.define(eq=False)
class Parent:
    """The process that started this one: it takes messages, and may send further tasks."""

    _channel: socket.socket
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def __call__(self, message: Message) -> None:
        """Send a message."""
        data = encode(message)
        with self._lock:
            self._channel.sendall(data)

    def next_task(self) -> Task:
        """Wait for another task and return it. Without that process this one ends.

        :raises Exception: whatever reading it raises, which may import plugins.
        """
        try:
            return receive_task(self._channel)
        except (EOFError, OSError):
            os._exit(1)


def send_task(channel: socket.socket, task: Task) -> None:
    """Send a task, its length first."""
    data = pickle.dumps(task)
    channel.sendall(len(data).to_bytes(8, "big") + data)


def receive_task(channel: socket.socket) -> Task:
    """Receive a task from the process that started this one.

    :raises EOFError: if that process is gone.
    """
    with channel.makefile("rb") as file:
        length = int.from_bytes(file.read(8), "big")
        data = file.read(length)
    if not data or len(data) < length:
        raise EOFError("the parent process is gone")
    task = pickle.loads(data)
    assert isinstance(task, Task)
    return task


def encode(message: Message) -> bytes:
    """Return a message as a line of JSON, which names its class as "type"."""
    data = {**_converter.unstructure(message), TYPE: type(message).__name__}
    return json.dumps(data).encode() + b"\n"


def decode(line: bytes, in_words: Callable[[str], str] = str) -> Message:
    """Return the message that a line of JSON holds.

    :param in_words: returns a text of the message with the user's own paths.
    :raises ValueError: if it is unknown or malformed.
    """

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return in_words(value)
        if isinstance(value, dict):
            return {key: convert(each) for key, each in value.items()}
        return [convert(each) for each in value] if isinstance(value, list) else value

    data = convert(json.loads(line))
    kind = data.get(TYPE) if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in Message.kinds:
        raise ValueError(f"unknown message {str(data)[:SHOWN_CHARACTERS]!r}")
    fields = {name: value for name, value in data.items() if name != TYPE}
    try:
        message: Message = _converter.structure(fields, Message.kinds[kind])
    except Exception as error:  # any value may have any type
        problems = "; ".join(transform_error(error)[:SHOWN_PROBLEMS])
        raise ValueError(f"malformed message {kind!r}: {problems}") from error
    return message
