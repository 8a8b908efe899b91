"""What every contestant reports: the seconds of its epochs, its losses, its memory.

Only the standard library is imported: each system has this in its own environment.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

# A try of the grid ends early where an epoch takes this many times the best one so far, and at
# least so many seconds; in the first epoch another batch than the first may compile again.
CUT_RATIO, CUT_SECONDS, CUT_FIRST_SECONDS = 2.0, 1.0, 30.0
# Environment variables: the file into which a process writes its ID when its turn is over, and the
# seconds that it trains in all of its turns.
TURN, SECONDS = "PEERS_TURN", "PEERS_SECONDS"
# A turn is so long, or half of these seconds if that is less; a training that takes turns ends
# after so many epochs at the latest.
TURN_SECONDS, MOST_EPOCHS = 2.0, 200


@dataclass
class Report:
    """What one training was.

    `epoch_seconds` are those of each timed epoch without its validation, `whole_seconds` with it,
    `reached_seconds` those
    from the start of the process to the end of each epoch's training. `cut` says that it ended
    early.
    """

    started: float
    epoch_seconds: list[float] = field(default_factory=list)
    whole_seconds: list[float] = field(default_factory=list)
    reached_seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    cut: bool = False

    def write(self, path: Path) -> None:
        """Write this report, with the peak memory of the process and of its children."""
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        # of a process and its workers at least this much was in use
        peak = max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024
        self.peak_mib = max(self.peak_mib, peak)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


class Turns:
    """Stops this process between epochs, so that only one contestant of a round computes.

    The first epoch of a turn is not timed: caches are cold, and a thread that sleeps for a while
    has slept while the process was stopped.

    :param file: into which this process writes its ID before it stops.
    :param seconds: of all turns, without these first epochs.
    """

    def __init__(self, file: Path, seconds: float) -> None:
        self._file, self._seconds = file, seconds
        self._epochs = 0  # of this turn; none before the first one
        self._since: float | None = None  # the first epoch of this turn has ended
        self._before = 0.0
        self.stopped_seconds = 0.0

    @property
    def is_first_epoch(self) -> bool:
        """Whether the epoch is the first one of a turn."""
        return self._epochs == 1

    @property
    def is_over(self) -> bool:
        """Whether the last turn is over."""
        return self._before + self._passed() >= self._seconds

    def begin_epoch(self) -> None:
        """Stop until the race has this process go on, if its turn is over."""
        if self.is_first_epoch:
            self._since = time.monotonic()
        self._epochs += 1
        if self._epochs > 1 and self._passed() < min(TURN_SECONDS, self._seconds / 2):
            return
        self._before += self._passed()
        self._epochs, self._since, began = 1, None, time.monotonic()
        self._file.write_text(str(os.getpid()), encoding="utf-8")
        # of all threads, but sent to this one, which must not compute on until the others stop
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        self.stopped_seconds += time.monotonic() - began

    def _passed(self) -> float:
        return 0.0 if self._since is None else time.monotonic() - self._since


class EpochTimer:
    """Notes the epochs of a training in its report, and has it take turns where it is told to.

    :param started: the monotonic time of the process' start.
    :param epochs: the first epochs, whose losses are compared. A training that takes turns goes on
        until its turns are over.
    """

    def __init__(self, started: float, epochs: int) -> None:
        self.report = Report(started)
        self._epochs = epochs
        self._turns = (
            Turns(Path(os.environ[TURN]), float(os.environ[SECONDS]))
            if TURN in os.environ
            else None
        )
        self._began = 0.0

    @property
    def most_epochs(self) -> int:
        """The number of epochs after which a training ends if `is_over` does not end it before."""
        return self._epochs if self._turns is None else MOST_EPOCHS

    @property
    def is_over(self) -> bool:
        """Whether enough epochs are trained and timed."""
        whole = len(self.report.losses) >= self._epochs
        return whole and (self._turns is None or self._turns.is_over)

    def begin(self) -> None:
        """Begin an epoch's training, when it is this process' turn."""
        if self._turns is not None:
            self._turns.begin_epoch()
        self._began = time.monotonic()

    def passed(self) -> float:
        """Return the seconds since the epoch's training began."""
        return time.monotonic() - self._began

    def end(self, seconds: float, loss: float, validation_loss: float) -> None:
        """Note an epoch whose training took so many seconds, when its validation is over."""
        report, turns = self.report, self._turns
        # the first epoch of all is reported, and left out by who reads the report
        if not (report.epoch_seconds and turns is not None and turns.is_first_epoch):
            report.epoch_seconds.append(seconds)
            report.whole_seconds.append(self.passed())
        if len(report.losses) < self._epochs:
            report.losses.append(loss)
            report.validation_losses.append(validation_loss)
            stopped = 0.0 if turns is None else turns.stopped_seconds
            report.reached_seconds.append(self._began + seconds - stopped - report.started)


@dataclass(frozen=True)
class Task:
    """What a contestant trains: files that `prepare` wrote, and how.

    `options` are those of its system; `started` is the monotonic time of the process' start. With
    a `grid` of options each is tried in turn, on the first `examples` of the training data.
    """

    line: str
    folder: Path
    epochs: int
    batch_size: int
    seed: int
    started: float
    options: dict[str, Any]
    out: Path
    grid: tuple[dict[str, Any], ...] = ()
    examples: int | None = None


@dataclass
class Patience:
    """Ends a try of the grid early, by the seconds of the best epoch so far."""

    best: float = float("inf")

    def is_spent(self, seconds: float, epoch: int) -> bool:
        """Return whether an epoch that has taken so many seconds, after the training's first step,
        is cut."""
        least = CUT_SECONDS if epoch else CUT_FIRST_SECONDS
        return seconds > max(least, CUT_RATIO * self.best)

    def note(self, report: Report) -> None:
        """Note what a whole try took."""
        if not report.cut:
            self.best = min(self.best, *report.epoch_seconds[1:])


def read_task() -> Task:
    """Return the task that the command line of a contestant names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    values = json.loads(Path(parser.parse_args().task).read_text(encoding="utf-8"))
    values["folder"], values["out"] = Path(values["folder"]), Path(values["out"])
    return Task(**values)


def run(train: Callable[[Task, Patience | None], Report]) -> None:
    """Train the task of the command line and write its report.

    Of a grid each option's report is a line of JSON, written as its training ends.
    """
    task = read_task()
    if not task.grid:
        train(task, None).write(task.out)
        return
    patience = Patience()
    for options in task.grid:
        try:
            report = train(replace(task, options=options, started=time.monotonic()), patience)
            patience.note(report)
            tried = asdict(report)
        except Exception as error:
            traceback.print_exc()
            tried = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        with task.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(tried) + "\n")
