"""What every contestant reports: the seconds of its epochs, its losses, its memory.

Only the standard library is imported: each system has this in its own environment.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

# A try of the grid ends early where an epoch takes this many times the best one so far, and at
# least so many seconds; in the first epoch another batch than the first may compile again.
CUT_RATIO, CUT_SECONDS, CUT_FIRST_SECONDS = 2.0, 1.0, 30.0


@dataclass
class Report:
    """What one training was.

    `epoch_seconds` are those of each epoch without its validation, `reached_seconds` those from the
    start of the process to the end of each epoch's training. `cut` says that it ended early.
    """

    started: float
    epoch_seconds: list[float] = field(default_factory=list)
    reached_seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    cut: bool = False

    def trained(self, seconds: float, loss: float) -> None:
        """Note the end of an epoch's training, which took so many seconds."""
        self.epoch_seconds.append(seconds)
        self.losses.append(loss)
        self.reached_seconds.append(time.monotonic() - self.started)

    def write(self, path: Path) -> None:
        """Write this report, with the peak memory of the process and of its children."""
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        # of a process and its workers at least this much was in use
        peak = max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024
        self.peak_mib = max(self.peak_mib, peak)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


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
