"""See what grows and what is left over 100 runs of one `tfopt apply`, and over 100 applies.

    .venv/bin/python benchmarks/soak.py [--runs 100] [--applies 100] [--smoke]

"runs" is one command that makes so many runs of a tiny training. "applies" is one Python process
that calls `tfopt_core.apply` so many times, as a notebook does. For each it prints how much memory
of its own the process has gained from the second tenth to the last (its first tenth fills caches),
which descriptors, processes and files are left beside outputs and results, and what these hold a
run. Ends with status 1 where one is over its bar. It takes about 25 minutes; other
work on the machine changes nothing but that.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import psutil
from options import make_parser, positive

WORKLOAD = """
    import keras
    import numpy as np
    from tfopt_core import Workload

    def build():
        x = np.arange(80, dtype="float32").reshape(40, 2) / 80
        def build_model():
            return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        return Workload(
            train=(x, x[:, :1]), build_model=build_model, optimizer="sgd", loss="mse",
            baseline="a line through points",
        )
"""
RECIPE = """
    name = "soak"
    [workload]
    factory = "soak.py:build"
    epochs = 2
    batch_size = 16
    [[plugins]]
    use = "prefetch"
    [measure]
    pairs = %d
    seconds = "whole"
    attribution = "off"
"""
APPLIES = """
import sys
import tfopt_core
for number in range(int(sys.argv[1])):
    tfopt_core.apply("recipe.toml")
    print(number, flush=True)
    sys.stdin.readline()  # until it was looked at
"""
# Of a measurement within `applies`: the fewest that there may be.
PAIRS = 4
SMOKE_RUNS, SMOKE_APPLIES = 8, 2
MARK = "TFOPT_SOAK"
# The bars.
MOST_GROWTH_BYTES = 5_000_000
MOST_STORED_BYTES = 32_768
# What the folder of results keeps: of a project, and of each run.
KEPT = ("runs.sqlite", "measuring.lock", "output.txt", ".gitignore")
# What ends with the command may take so long to be gone.
GONE_SECONDS = 5.0


@attrs.frozen
class Sample:
    """What the process holds at one moment: memory of its own, and descriptors."""

    own_bytes: int
    descriptors: int

    @classmethod
    def of(cls, process: psutil.Process) -> Sample:
        """Return the sample of a process now."""
        return cls(process.memory_full_info().uss, process.num_fds())


@attrs.frozen(kw_only=True)
class Soaked:
    """What grew and what is left after one of the two.

    :param samples: one after each run, or after each apply.
    :param temporary: what is left in the folder for temporary files.
    :param unkept: what is left in the folder of results beside results and outputs.
    :param runs: the runs in the results' file.
    :param stored_bytes: the size of the folder of results.
    """

    name: str
    seconds: float
    samples: tuple[Sample, ...]
    processes: tuple[str, ...]
    temporary: tuple[str, ...]
    unkept: tuple[str, ...]
    runs: int
    stored_bytes: int

    def growth(self, figure: Callable[[Sample], int]) -> int:
        """Return by how much the median of a figure grew, from the second tenth to the last."""
        tenth = max(1, len(self.samples) // 10)
        figures = [figure(sample) for sample in self.samples]
        late, early = figures[-tenth:], figures[tenth : 2 * tenth] or figures[:tenth]
        return round(statistics.median(late) - statistics.median(early))

    def problems(self, *, smoke: bool) -> list[str]:
        """Return what is over its bar; of a `smoke`, which is too short to grow, what is left."""
        growth = self.growth(lambda sample: sample.own_bytes)
        descriptors = self.growth(lambda sample: sample.descriptors)
        return [
            f"{self.name}: {problem}"
            for over, problem in (
                (growth > MOST_GROWTH_BYTES and not smoke, f"memory grew by {growth / 1e6:.1f} MB"),
                (descriptors > 0, f"{descriptors} descriptors more"),
                (self.processes, f"processes are left: {', '.join(self.processes)}"),
                (self.temporary, f"temporary files are left: {', '.join(self.temporary[:5])}"),
                (self.unkept, f"files of runs are left: {', '.join(self.unkept[:5])}"),
                (self.stored_bytes > MOST_STORED_BYTES * self.runs and not smoke,
                 f"the results have over {MOST_STORED_BYTES} bytes a run"),
            )
            if over
        ]  # fmt: skip

    def row(self) -> str:
        """Return the row of the table."""
        growth = self.growth(lambda sample: sample.own_bytes) / 1e6
        descriptors = self.growth(lambda sample: sample.descriptors)
        return (
            f"{self.name:<9}{len(self.samples):>6}{self.runs:>6}{self.seconds:>9.0f}"
            f"{self.samples[-1].own_bytes / 1e6:>11.1f}{growth:>+9.2f}{descriptors:>+13d}"
            f"{len(self.processes):>11}{len(self.temporary):>7}{len(self.unkept):>8}"
            f"{self.stored_bytes / max(1, self.runs) / 1024:>12.1f}"
        )


HEAD = (
    f"{'':<9}{'times':>6}{'runs':>6}{'seconds':>9}{'memory MB':>11}{'grew':>9}{'descriptors':>13}"
    f"{'processes':>11}{'files':>7}{'unkept':>8}{'KiB a run':>12}"
)


@attrs.frozen
class Place:
    """A project with the tiny training, and a folder for temporary files of its own."""

    folder: Path
    temporary: Path
    token: str

    @classmethod
    def make(cls, folder: Path, pairs: int) -> Place:
        """Write the project."""
        project, temporary = folder / "project", folder / "temporary"
        for each in (project, temporary):
            each.mkdir(parents=True)
        (project / "pyproject.toml").touch()
        (project / "soak.py").write_text(textwrap.dedent(WORKLOAD), encoding="utf-8")
        (project / "recipe.toml").write_text(textwrap.dedent(RECIPE % pairs), encoding="utf-8")
        return cls(project, temporary, secrets.token_hex(8))

    @property
    def results(self) -> Path:
        """The folder of tfopt's results."""
        return self.folder / ".tfopt"

    def runs(self) -> int:
        """Return how many runs are stored by now."""
        path = self.results / "runs.sqlite"
        if not path.exists():
            return 0
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
            try:
                [(count,)] = connection.execute("SELECT COUNT(*) FROM run")
            except sqlite3.OperationalError:  # the tables are about to be made
                return 0
        return int(count)

    def start(self, *command: str, talks: bool = False) -> subprocess.Popen[str]:
        """Start a command in the project, whose processes can be found again by its token."""
        environment = {**os.environ, MARK: self.token, "TMPDIR": str(self.temporary)}
        return subprocess.Popen(
            [sys.executable, *command], cwd=self.folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE if talks else subprocess.DEVNULL,
        )  # fmt: skip

    def left(self) -> Iterator[str]:
        """Yield each process that was started with the token and still runs."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.token and process.pid != os.getpid():
                    yield f"{process.pid} {' '.join(process.cmdline())[:60]}"

    def soaked(self, name: str, seconds: float, samples: list[Sample]) -> Soaked:
        """Return what is left, once what was started has had time to end."""
        end = time.monotonic() + GONE_SECONDS
        while (left := tuple(self.left())) and time.monotonic() < end:
            time.sleep(0.1)
        files = [path for path in self.results.rglob("*") if path.is_file()]
        unkept = [str(path.relative_to(self.results)) for path in files if path.name not in KEPT]
        return Soaked(
            name=name, seconds=seconds, samples=tuple(samples), processes=left,
            temporary=tuple(sorted(os.listdir(self.temporary))), unkept=tuple(sorted(unkept)),
            runs=self.runs(), stored_bytes=sum(path.stat().st_size for path in files),
        )  # fmt: skip


def soak_runs(place: Place) -> Soaked:
    """Make all runs in one command; a sample after each."""
    begun, samples = time.monotonic(), list[Sample]()
    with place.start("-m", "tfopt_core", "apply", "recipe.toml") as command:
        process = psutil.Process(command.pid)
        while command.poll() is None:
            if place.runs() > len(samples):
                with contextlib.suppress(psutil.Error):
                    samples.append(Sample.of(process))
            time.sleep(0.05)
        _check_ended(command)
    return place.soaked("runs", time.monotonic() - begun, samples)


def soak_applies(place: Place, applies: int) -> Soaked:
    """Call `tfopt_core.apply` again and again in one process; a sample after each."""
    begun, samples = time.monotonic(), list[Sample]()
    with place.start("-c", APPLIES, str(applies), talks=True) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        process = psutil.Process(command.pid)
        for _ in command.stdout:
            samples.append(Sample.of(process))
            command.stdin.write("\n")
            command.stdin.flush()
        command.wait()
        _check_ended(command)
    return place.soaked("applies", time.monotonic() - begun, samples)


def _check_ended(command: subprocess.Popen[str]) -> None:
    if command.returncode:
        sys.exit(f"tfopt ended with {command.returncode}")


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=positive, default=100, help="of one command, an even number")
    parser.add_argument("--applies", type=positive, default=100)
    options = parser.parse_args()
    runs, applies = options.runs, options.applies
    if options.smoke:
        runs, applies = SMOKE_RUNS, SMOKE_APPLIES
    problems: list[str] = []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        places = [
            Place.make(Path(temporary, name), pairs)
            for name, pairs in (("runs", runs // 2), ("applies", PAIRS))
        ]
        for number, place in enumerate(places):
            found = soak_applies(place, applies) if number else soak_runs(place)
            print(found.row(), flush=True)
            problems += found.problems(smoke=options.smoke)
    print("\n".join(problems) or "nothing is over its bar")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
