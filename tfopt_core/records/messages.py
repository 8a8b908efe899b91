"""The messages that a worker process sends to the process that started it. No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tfopt_core.hooks.context import Cluster
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.replay import Replayed
from tfopt_core.records.run import RunReport


@attrs.frozen
class ProcessStarted:
    """The process has read its task. That of a factory has also opened TensorFlow's devices; a
    script may still choose them."""


@attrs.frozen
class ClusterJoining:
    """The process begins to wait for the others of its cluster, for at most `seconds`.

    It waits in native code and cannot send messages meanwhile.
    """

    cluster: Cluster
    seconds: float


@attrs.frozen
class ClusterJoined:
    """All processes of the cluster have joined."""


@attrs.frozen
class StepDone:
    """`step` steps of an epoch are done; `epoch` counts from 0."""

    epoch: int
    step: int


@attrs.frozen
class TurnOver:
    """The turn of the training is over: the process with this ID is about to stop itself."""

    pid: int


@attrs.frozen
class EpochDone:
    """An epoch is done, and these are its metrics; `epoch` counts from 0."""

    epoch: int
    metrics: Mapping[str, float]


@attrs.frozen
class Note:
    """A text for the user; of a diagnosis, the phase that begins."""

    text: str


@attrs.frozen
class PartsMeasured:
    """A diagnosis before the plugins are asked for suggestions."""

    diagnosed: Diagnosed


@attrs.frozen
class PluginAsked:
    """This plugin is asked for suggestions."""

    plugin: str


@attrs.frozen
class OthersServed:
    """The process served the others of its cluster, which have ended; it trained nothing."""


@attrs.frozen
class CannotMount:
    """The process is a fork that could not mount the overlay of its private folder: a new process
    does the task instead."""

    reason: str


@attrs.frozen(kw_only=True)
class Failure:
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


# The messages while a process works, and the last message, which ends them.
Progress = (
    ProcessStarted | ClusterJoining | ClusterJoined | StepDone | TurnOver | EpochDone
    | Note | PartsMeasured | PluginAsked
)  # fmt: skip
Answer = Prepared | RunReport | OthersServed | Replayed | Diagnosed | CannotMount | Failure
Message = Progress | Answer

Tell = Callable[[Progress], None]
