"""Time verdicts: `tfopt apply` on eight trainings, on the machine as it is and beside a job.

    .venv/bin/python benchmarks/verdicts.py [--rounds 1] [--only NAME,...] [--minutes 60] [--plan]

The job takes one core for 2 to 4 s and rests for as long, again and again. Each measurement is one
command in a new folder, as a user types it. A verdict is due after 120 s and twelve starts of the
training's process; for quickstart, whose quality takes whole trainings, after 240 s. An interval
should be no wider than 6% either way, and 9% beside the job.

Every measurement is kept in the folder `--store` as it ends: after Ctrl-C the same command goes on
where it was, and `--minutes 0` prints the table of what is there.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from options import make_parser, output, positive
from pacing import OutOfTime, say
from peers.course import Store
from scripts import CASES, SCRIPTS, SMOKE_OPTIONS, SMOKE_SCRIPT

# The bars, as promises to users: they do not follow the code.
DUE_SECONDS, STARTS, DUE_OF_WHOLE = 120.0, 12, 240.0
WIDTHS = {"idle": 0.06, "busy": 0.09}
# About what a measurement takes, before one was made.
USUAL_SECONDS = 180.0
TITLE = (
    "# Verdicts\n\n"
    "`benchmarks/verdicts.py` times `tfopt apply` on a recipe and scripts as people type it, on "
    "the machine as it is and\nbeside a job that takes one of its two cores for 2 to 4 s and rests "
    "for as long. `due` is 120 s and twelve starts of\nthe script (240 s for quickstart); an "
    "interval should be no wider than 6% either way, and 9% beside the job.\n"
)
TITLES = ("training", "machine", "verdict", "interval", "half-width", "pairs", "seconds", "due")


@attrs.frozen(kw_only=True)
class Training:
    """What is measured: a recipe that ships, or a script with more data and epochs.

    :param file: the script; None for the recipe of this name.
    :param changes: texts of the script, each with what takes its place.
    """

    file: Path | None = None
    changes: Mapping[str, str] = attrs.field(factory=dict)

    def written_to(self, folder: Path, name: str) -> str:
        """Write what is needed into a folder, and return the command's target.

        :raises SystemExit: if a text of the script is not there.
        """
        (folder / "pyproject.toml").touch()
        if self.file is None:
            return name
        text = self.file.read_text(encoding="utf-8")
        for old, new in self.changes.items():
            if old not in text:
                sys.exit(f"{self.file.name} has no {old!r} to lengthen")
            text = text.replace(old, new)
        (folder / self.file.name).write_text(text, encoding="utf-8")
        return self.file.name


TRAININGS = {
    "quickstart": Training(),
    "tabular-preprocessing": Training(),
    "sequential_fashion": Training(
        file=CASES / "sequential_fashion.py",
        changes={"[:2500]": "[:10000]", "epochs = 3": "epochs = 80"},
    ),
    "functional_tfdata": Training(
        file=SCRIPTS / "functional_tfdata.py",
        changes={"[:2000": "[:10000", "EPOCHS = 2": "EPOCHS = 50"},
    ),
    "vae_fashion": Training(
        file=SCRIPTS / "vae_fashion.py", changes={"[:2000]": "[:10000]", "epochs=3": "epochs=80"}
    ),
    "text_vectorized": Training(
        file=CASES / "text_vectorized.py", changes={"epochs=5": "epochs=80"}
    ),
    "generator": Training(file=CASES / "generator.py", changes={"epochs=8": "epochs=40"}),
    "augmented_folder": Training(
        file=CASES / "augmented_folder.py", changes={"epochs=10": "epochs=40"}
    ),
}
SMOKE = {SMOKE_SCRIPT: Training(file=CASES / f"{SMOKE_SCRIPT}.py")}


@contextmanager
def machine(condition: str) -> Iterator[None]:
    """Have the machine busy or not while this is entered."""
    if condition == "idle":
        yield
        return
    job = multiprocessing.get_context("spawn").Process(target=come_and_go, daemon=True)
    job.start()
    try:
        yield
    finally:
        job.kill()
        job.join()


def come_and_go() -> None:
    """Compute for 2 to 4 s and rest for as long, again and again."""
    source = random.Random(7)
    while True:
        end = time.monotonic() + source.uniform(2.0, 4.0)
        while time.monotonic() < end:
            sum(range(1000))
        time.sleep(source.uniform(2.0, 4.0))


def measurement(
    name: str, training: Training, condition: str, options: Sequence[str]
) -> dict[str, Any]:
    """Return what one command said, and when."""
    with tempfile.TemporaryDirectory(prefix="tfopt-verdict-") as place, machine(condition):
        folder = Path(place)
        target = training.written_to(folder, name)
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tfopt_core", "apply", target, "--json", "out.json", *options],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds, out = time.monotonic() - begun, folder / "out.json"
        said = {"seconds": seconds, "screen": done.stdout, "progress": done.stderr}
        if not out.exists():
            words = " ".join(done.stderr.split())[-200:]
            return {**said, "failed": words, "verdict": f"status {done.returncode}"}
        results = json.loads(out.read_text(encoding="utf-8"))
        shutil.rmtree(folder / ".tfopt", ignore_errors=True)
    return {**said, **read(results)}


def read(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table needs of the JSON of the command."""
    if not results.get("measured", True):
        return {"verdict": "nothing to gain", "pairs": 0, "start_seconds": 0.0, "whole": False}
    comparison = results["comparison"]
    starts = [
        run["process_seconds"] - run["wall_seconds"] + run["fits"][-1]["one_time_seconds"]
        for run in results["runs"]
        if run["status"] == "ok" and run["process_seconds"] is not None
    ]
    return {
        **{key: comparison[key] for key in ("verdict", "speedup", "low", "high", "pairs")},
        "start_seconds": statistics.fmean(starts) if starts else 0.0,
        "whole": results["warm_seconds"] is None,
    }


@attrs.frozen
class Row:
    """One measurement of the table."""

    name: str
    condition: str
    found: Mapping[str, Any]

    @property
    def width(self) -> float | None:
        """The half-width of the interval, relative; None without one."""
        if self.found.get("speedup") is None:
            return None
        return math.sqrt(float(self.found["high"]) / self.found["low"]) - 1

    @property
    def due(self) -> float:
        """The seconds after which the verdict was due."""
        if self.found.get("whole"):
            return DUE_OF_WHOLE
        return DUE_SECONDS + STARTS * float(self.found.get("start_seconds", 0.0))

    def cells(self) -> list[str]:
        """Return the cells of its row."""
        found, width = self.found, self.width
        interval = ""
        if width is not None:
            interval = "{speedup:.2f}x ({low:.2f} to {high:.2f})".format(**found)
        return [
            self.name, self.condition, found["verdict"], interval,
            "" if width is None else f"{width:.1%}", str(found.get("pairs", "")),
            f"{found['seconds']:.0f}", f"{self.due:.0f}",
        ]  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return the table, and how many measurements keep which bar."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (TITLES, *(row.cells() for row in rows))]
    lines.insert(1, "|" + " --- |" * len(TITLES))
    timely = sum(row.found["seconds"] <= row.due for row in rows)
    wide = [row for row in rows if row.width is not None]
    narrow = sum((row.width or 0.0) <= WIDTHS[row.condition] for row in wide)
    large = [row for row in wide if row.found["speedup"] >= 1.3]
    faster = sum(row.found["verdict"] in ("faster", "steps faster") for row in large)
    said = (
        f"In time: {timely} of {len(rows)}. Narrow enough: {narrow} of {len(wide)} with an "
        f'interval. Gains of 1.3x and more that are called "faster": {faster} of {len(large)}.'
    )
    return "\n".join([*lines, "", said])


def key_of(name: str, condition: str, number: int) -> str:
    """Return the store's key of a measurement; rounds count from 0."""
    return f"{name} {condition} {number + 1}"


def main() -> None:
    """Make what is left, print the table, and write it."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=positive, default=1)
    parser.add_argument("--only", help="trainings, separated by commas")
    parser.add_argument("--minutes", type=float, help="begin no measurement that would end later")
    parser.add_argument("--plan", action="store_true", help="only say what is left")
    parser.add_argument("--retry", action="store_true", help="make again what failed before")
    parser.add_argument("--store", type=Path, default=Path(".tfopt/verdicts"))
    parser.add_argument("--out", type=output, help="the file for the table")
    options = parser.parse_args()
    known = SMOKE if options.smoke else TRAININGS
    only = (options.only or ",".join(known)).split(",")
    if unknown := set(only) - set(known):
        parser.error(f"--only: {', '.join(sorted(unknown))}: none of {', '.join(known)}")
    conditions = ("idle",) if options.smoke else tuple(WIDTHS)
    wanted = [
        (name, condition, number)
        for number in range(options.rounds) for condition in conditions for name in only
    ]  # fmt: skip
    store = Store(options.store / "runs.jsonl", {"smoke": options.smoke}, retry=options.retry)
    left = [one for one in wanted if store.get(key_of(*one)) is None]
    say(f"{len(left)} measurements are left, about {len(left) * USUAL_SECONDS / 60:.0f} minutes")
    if options.plan:
        return
    until = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    more, ended = SMOKE_OPTIONS if options.smoke else (), ""
    try:
        for name, condition, number in left:
            if time.monotonic() + USUAL_SECONDS > until:
                raise OutOfTime
            say(f"{name}, {condition}")
            made = measurement(name, known[name], condition, more)
            store.keep(key_of(name, condition, number), made)
            say(f"{made['verdict']} after {made['seconds']:.0f} s")
    except OutOfTime:
        ended = f"{options.minutes:g} minutes are over"
    except KeyboardInterrupt:
        ended = "interrupted"
    if ended:
        say(f"{ended}; the same command goes on")
    rows = [
        Row(name, condition, found)
        for name, condition, number in wanted
        if (found := store.get(key_of(name, condition, number)))
    ]
    print(table(rows))
    if options.out is not None:
        options.out.write_text(f"{TITLE}\n{table(rows)}\n", encoding="utf-8")
    if ended == "interrupted":
        sys.exit(130)


if __name__ == "__main__":
    main()
