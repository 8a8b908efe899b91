"""Run the contestants of one line, each in a process of its own, and keep what they report."""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from peers.contestant import MOST_EPOCHS
from peers.files import Files
from peers.lines import GRID_EPOCHS, LINES, Contestant, grid_examples, recipe_text
from peers.processes import LIMIT_SECONDS, run_process
from peers.turns import Report, Start, train_in_turns

# The file in which a contestant writes its report.
OUT = "out.json"
# What a contestant trains in all turns of a round, at least.
TURNS_SECONDS, SMOKE_TURNS_SECONDS = 4.0, 0.3


@attrs.frozen
class Course:
    """A line made ready: its files, and how its processes are started.

    :param examples: fewer training examples, None for all.
    """

    name: str
    folder: Path
    peers: Path
    epochs: int
    seeds: Sequence[int]
    examples: int | None

    def prepare(self) -> None:
        """Write the arrays and the initial models that are not there.

        :raises SystemExit: with what was written to standard error, if that fails.
        """
        begun = Files(self.folder, 0).compiled.exists()
        missing = [s for s in self.seeds if not begun or not Files(self.folder, s).output.exists()]
        if not missing:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {"examples": self.examples, "seeds": missing}
        done = self._run(sys.executable, "prepare", self._task(options, self.seeds[0]))
        if "failed" in done:
            sys.exit(f"{self.name} could not be prepared:\n{done['failed']}")

    def run(self, contestants: Sequence[Contestant], seed: int, order: str) -> list[Report]:
        """Return the reports of these contestants, which train in turns; {"failed": why} of one
        that ended without a report.

        :param order: what the order of their turns is drawn from.
        """
        places = [self.folder / "turns" / str(number) for number in range(len(contestants))]
        shutil.rmtree(self.folder / "turns", ignore_errors=True)
        starts = [
            self._start(one, seed, place) for one, place in zip(contestants, places, strict=True)
        ]
        seconds = TURNS_SECONDS if self.examples is None else SMOKE_TURNS_SECONDS
        reports = train_in_turns(starts, random.Random(order), seconds, LIMIT_SECONDS)
        return [with_what_was_written(*both) for both in zip(reports, places, strict=True)]

    def tried(self, grid: Sequence[Contestant], keep: Callable[[Contestant, Report], None]) -> None:
        """Try each option of a system's grid, in one process while none fails; keep each report.

        An option that ends the process has failed, and another process tries those after it.
        """
        examples = grid_examples(self.name, Files(self.folder, 0).read_compiled()["examples"])
        left = list(grid)
        while left:
            task = self._task(
                {}, self.seeds[0], epochs=GRID_EPOCHS, examples=examples,
                grid=[contestant.options for contestant in left],
            )  # fmt: skip
            python, module, environment = self._command(left[0].system)
            try:
                done = self._run(python, module, task, **environment)
            except KeyboardInterrupt:
                for contestant, report in zip(left, self._reports(), strict=False):
                    keep(contestant, report)
                raise
            reports = self._reports()
            if len(reports) < len(left):
                reports.append({"failed": done.get("failed", "it wrote no report")})
            took = {key: done.get(key, 0.0) / len(reports)
                    for key in ("process_seconds", "cpu_seconds")}  # fmt: skip
            for contestant, report in zip(left, reports, strict=False):
                keep(contestant, {**report, **took})
            left = left[len(reports) :]

    def _reports(self) -> list[Report]:
        """Return what a process that tries a grid has written."""
        lines = self._out.read_text("utf-8").splitlines() if self._out.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def _out(self) -> Path:
        return self.folder / OUT

    def _command(self, system: str) -> tuple[str, str, dict[str, str]]:
        if system == "PyTorch":
            return str(self.peers), "with_torch", {}
        if system == "Keras on JAX":
            return str(self.peers), "with_keras", {"KERAS_BACKEND": "jax"}
        return sys.executable, "with_keras", {"KERAS_BACKEND": "tensorflow"}

    def _task(
        self, options: dict[str, Any], seed: int, place: Path | None = None, **more: Any
    ) -> Path:
        place = place or self.folder
        path = place / "task.json"
        path.write_text(json.dumps({
            "line": self.name, "folder": str(self.folder), "epochs": self.epochs, "seed": seed,
            "batch_size": LINES[self.name].batch_size, "started": time.monotonic(),
            "options": options, "out": str(place / OUT), **more,
        }), encoding="utf-8")  # fmt: skip
        return path

    def _start(self, contestant: Contestant, seed: int, place: Path) -> Start:
        place.mkdir(parents=True)

        def command() -> tuple[list[str], dict[str, str]]:
            if contestant.is_ours:
                return self._tfopt(str(contestant.options["recipe"]), seed, place)
            python, module, environment = self._command(contestant.system)
            task = self._task(contestant.options, seed, place)
            return [python, "-m", f"peers.{module}", str(task)], environment

        return Start(place, command)

    def _tfopt(self, recipe: str, seed: int, place: Path) -> tuple[list[str], dict[str, str]]:
        path = place / "recipe.toml"
        text = recipe_text(self.name, recipe, MOST_EPOCHS, self.examples)
        path.write_text(text, encoding="utf-8")
        (place / "pyproject.toml").touch()
        return (
            [sys.executable, "-m", "tfopt_core", "train", str(path), "--seed", str(seed)],
            {
                "PEERS_STARTED": str(time.monotonic()), "PEERS_REPORT": str(place / OUT),
                "PEERS_EPOCHS": str(self.epochs),
            },
        )  # fmt: skip

    def _run(self, python: str, module: str, task: Path, **environment: str) -> Report:
        self._out.unlink(missing_ok=True)
        return run_process([python, "-m", f"peers.{module}", str(task)], self.folder, environment)


def with_what_was_written(report: Report, place: Path) -> Report:
    """Return the report of a process with what it has written in its folder, unless it failed."""
    out = place / OUT
    if "failed" in report or not out.exists():
        return report
    written: Report = json.loads(out.read_text(encoding="utf-8"))
    return report | written


class Store:
    """What has been run, as one line of JSON each, so that a race can go on.

    :raises SystemExit: if the file holds runs under other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any], *, retry: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._runs: dict[str, Report] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # the machine stopped within a line
            path.write_text(whole, encoding="utf-8")
        for line in whole.splitlines():
            self._runs.update(json.loads(line))
        stored = self._runs.pop("settings", settings)
        if stored != settings:
            others = [name for name in settings if stored.get(name) != settings[name]]
            sys.exit(
                f"{path} holds runs under other settings ({', '.join(others)}); give another "
                "folder with --store"
            )
        if not whole:
            self._append("settings", settings)
        if retry:
            self._runs = {key: run for key, run in self._runs.items() if "failed" not in run}

    def get(self, key: str) -> Report | None:
        """Return the report of this key, None if there is none."""
        return self._runs.get(key)

    def keep(self, key: str, report: Report) -> None:
        """Store a report."""
        self._runs[key] = report
        self._append(key, report)

    def _append(self, key: str, report: Report) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({key: report}) + "\n")
