"""The messages of a process that trains: its progress, and the figures of a run at its end.

No TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import attrs

from tfopt_core.hooks.context import Cluster
from tfopt_core.hooks.values import Effect

# The name under which a training loop of a script's own stands among the fits of a run.
OWN_LOOP = "the script's own loop"

# The reason why a block is cold that begins an epoch before which the process was stopped.
TURN = "turn"


class Message:
    """What a worker process sends to the process that started it. A subclass is declared where it
    is sent.

    :cvar kinds: the classes that were imported, by name.
    """

    __slots__ = ()
    kinds: ClassVar[dict[str, type[Message]]] = {}

    def __init_subclass__(cls) -> None:
        Message.kinds[cls.__name__] = cls


class Answer(Message):
    """The last message of a task."""

    __slots__ = ()


Tell = Callable[[Message], None]


@attrs.frozen
class ClusterJoining(Message):
    """The process begins to wait for the others of its cluster, for at most `seconds`.

    It waits in native code and cannot send messages meanwhile.
    """

    cluster: Cluster
    seconds: float


@attrs.frozen
class ClusterJoined(Message):
    """All processes of the cluster have joined."""


@attrs.frozen
class StepDone(Message):
    """`step` steps of an epoch are done; `epoch` counts from 0."""

    epoch: int
    step: int


@attrs.frozen
class EpochDone(Message):
    """An epoch is done, and these are its metrics; `epoch` counts from 0."""

    epoch: int
    metrics: Mapping[str, float]


@attrs.frozen
class Note(Message):
    """A text for the user; of a diagnosis, the phase that begins."""

    text: str


@attrs.frozen
class Block:
    """Some steps in a row: how many, how long, in which epoch.

    `cold` says why the block is no sample of a steady step: "trace" holds a trace or
    compilation, "cache" belongs to an epoch that fills a cache, "turn" begins one before which the
    process was stopped; "" for an ordinary block. `in_turns` says whether the process had been
    stopped before it ended, since it took turns with another one.
    """

    steps: int
    seconds: float
    epoch: int = 0
    cold: str = ""
    in_turns: bool = False


# Why a step was traced: "first", before a step was made; "shapes", for shapes that the fit had not
# traced before; "loop", for the same shapes, by a loop of tfopt's for another number of steps in a
# call, or to try it; "python", for the same shapes in Keras' own loop: something else changed.
TraceCause = Literal["first", "shapes", "loop", "python"]


@attrs.frozen(kw_only=True)
class StepTrace:
    """One trace of a fit's step: after how many `steps`, for which shapes of a batch, and why."""

    steps: int
    shapes: str
    cause: TraceCause


@attrs.frozen(kw_only=True)
class TrainingCounts:
    """What a fit did, counted apart from the loop that did it.

    :param updates: what each optimizer's `iterations` rose by in each epoch; one tuple for each
        optimizer. A step that float16 skips, since its gradients overflow, counts too.
    :param examples: the examples that the loss was taken of, by epoch; empty if unknown.
    :param validation_examples: the same of each validation.
    :param learning_rate: at the end; None if unknown.
    :param batch_calls: how often the callbacks that act on batches were called at the end of one;
        None if there are none.
    :param batch_indices: a digest of the indices that these calls were given.
    """

    updates: tuple[tuple[int, ...], ...] = ()
    examples: tuple[int, ...] = ()
    validation_examples: tuple[int, ...] = ()
    learning_rate: float | None = None
    batch_calls: int | None = None
    batch_indices: str | None = None


@attrs.frozen(kw_only=True)
class FitFacts:
    """The facts of a fit that its result keeps unchanged.

    `epochs` and `steps` are those that were trained, of `planned_epochs` times `steps_per_epoch`;
    `history` holds the metrics of each epoch. `batch_size` is None where the workload batches its
    own data. `replicas` are the devices that trained together, on `workers` processes that computed
    steps; `cluster_seconds` are those before the first step in which the processes of a cluster
    joined, None for one process. `name` is that of a script's call of `fit`, or `OWN_LOOP`, whose
    steps are updates; if the call was cut short, `repeated_epochs` is the number of epochs by which
    its own history was extended with the last values. They are not in `history`. `traces` are those
    of the step; the first call may make several. `counts` are what both sides of a pair must have
    in common.
    """

    blocks: tuple[Block, ...]
    trainable_parameters: int
    epochs: int
    steps: int
    jit_compile: bool = False
    history: Mapping[str, tuple[float, ...]]
    stop_reason: str | None = None
    planned_epochs: int | None = None
    steps_per_epoch: int | None = None
    batch_size: int | None = None
    replicas: int = 1
    workers: int = 1
    cluster_seconds: float | None = None
    name: str = ""
    repeated_epochs: int = 0
    traces: tuple[StepTrace, ...] = ()
    counts: TrainingCounts = TrainingCounts()


@attrs.frozen(kw_only=True)
class FitOutcome(FitFacts):
    """The times and the results of one fit. Seconds count from the start of its build.

    `setup_seconds` lie before the first step; `epoch_end_seconds` hold one figure an epoch, of the
    last one too where the fit was `cut_short` in it; `edge_seconds` lie between the last step of an
    epoch and the begin of the next, without the validation (what callbacks do, and Keras' new
    iterator). Of a training that was `resumed` from a checkpoint, `epochs` and `history` are those
    of all of it, the other figures only those of what was trained now. Of a script: `number` is
    that of its call of `fit`, from 1; `effects` are those of the plugins on it. `diverged` is the
    metric, or the loss or weight of a loop of its own, that was not finite, and when; None if all
    were.
    """

    planned_epochs: int
    wall_seconds: float
    setup_seconds: float = 0.0
    validation_seconds: tuple[float, ...] = ()
    epoch_end_seconds: tuple[float, ...]
    edge_seconds: tuple[float, ...] = ()
    cut_short: bool = False
    resumed: bool = False
    number: int = 0
    effects: Mapping[str, Effect] = attrs.field(factory=dict)
    diverged: str | None = None


# The validation loss without penalties on weights.
NAME = "val_data_loss"
# Losses with and without penalties that differ by less, relatively, are one and the same.
SAME_LOSS = 1e-6


def differs_from_loss(metrics: Mapping[str, float]) -> bool:
    """Return whether the loss without penalties differs, so that the model has penalties."""
    loss, data_loss = metrics.get("val_loss"), metrics.get(NAME)
    if loss is None or data_loss is None:
        return False
    return abs(loss - data_loss) > SAME_LOSS * max(abs(loss), abs(data_loss))


@attrs.frozen(kw_only=True)
class RunFacts:
    """The facts of a run that its result keeps unchanged.

    `cpu_seconds` are what all of the process computed. Of a script: `wall_seconds` are those of its
    calls of `fit` together, or of the `judged` one, which is an index of the run's fits;
    `exit_status` is the script's own; `after_fits` is what it raised, or how it exited, after the
    last fit that is judged; `out_of_memory` says that memory ran out, on the machine or a device,
    and ended the run; `notes` are texts for the user, and `written` the files that it has
    left in its private folder.
    """

    wall_seconds: float | None = None
    peak_rss_bytes: int | None = None
    peak_device_bytes: int | None = None
    cpu_seconds: float | None = None
    effects: Mapping[str, Effect] = attrs.field(factory=dict)
    judged: int | None = None
    exit_status: int | None = None
    after_fits: str | None = None
    out_of_memory: bool = False
    notes: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RunReport(RunFacts, Answer):
    """The report of a run at its end.

    `fits` are all that were trained, in the order of their calls. `script_error` is what a script
    raised before they were done.
    """

    fits: tuple[FitOutcome, ...]
    script_error: str | None = None

    @property
    def why_failed(self) -> str | None:
        """Why the run does not count although it ended; None if it counts."""
        if self.script_error is not None:
            return self.script_error
        if self.exit_status and self.after_fits is None:
            return f"the script ended with status {self.exit_status}"
        judged = self.fits if self.judged is None else (self.fits[self.judged],)
        return next((fit.diverged for fit in judged if fit.diverged is not None), None)
