"""What every contestant reports: the seconds of its epochs, its losses, its memory.

Only the standard library is imported: each system has this in its own environment.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Report:
    """What one training was.

    `epoch_seconds` are those of each epoch without its validation, `reached_seconds` those from the
    start of the process to the end of each epoch's training.
    """

    started: float
    epoch_seconds: list[float] = field(default_factory=list)
    reached_seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    peak_mib: float = 0.0

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

    `options` are those of its system; `started` is the monotonic time of the process' start.
    """

    line: str
    folder: Path
    epochs: int
    batch_size: int
    seed: int
    started: float
    options: dict[str, object]
    out: Path


def read_task() -> Task:
    """Return the task that the command line of a contestant names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    values = json.loads(Path(parser.parse_args().task).read_text(encoding="utf-8"))
    values["folder"], values["out"] = Path(values["folder"]), Path(values["out"])
    return Task(**values)
