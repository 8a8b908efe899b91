"""Run the contestants of one line, each in a process of its own, and keep what they report."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from peers.files import Files
from peers.lines import GRID_EPOCHS, LINES, PEERS, Contestant, grid_examples, recipe_text

Report = dict[str, Any]

# A process that takes longer has failed, and so has the option of the grid that it was trying.
LIMIT_SECONDS = 400.0


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

    def run(self, contestant: Contestant, seed: int) -> Report:
        """Return the report of one training; {"failed": why} if it ended without one."""
        if contestant.is_ours:
            return self._tfopt(str(contestant.options["recipe"]), seed)
        task = self._task(contestant.options, seed)
        python, module, environment = self._command(contestant.system)
        done = self._run(python, module, task, **environment)
        out = self._out
        if "failed" not in done and out.exists():
            done |= json.loads(out.read_text(encoding="utf-8"))
        return done

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
        return self.folder / "out.json"

    def _command(self, system: str) -> tuple[str, str, dict[str, str]]:
        if system == "PyTorch":
            return str(self.peers), "with_torch", {}
        if system == "Keras on JAX":
            return str(self.peers), "with_keras", {"KERAS_BACKEND": "jax"}
        return sys.executable, "with_keras", {"KERAS_BACKEND": "tensorflow"}

    def _task(self, options: dict[str, Any], seed: int, **more: Any) -> Path:
        path = self.folder / "task.json"
        path.write_text(json.dumps({
            "line": self.name, "folder": str(self.folder), "epochs": self.epochs, "seed": seed,
            "batch_size": LINES[self.name].batch_size, "started": time.monotonic(),
            "options": options, "out": str(self._out), **more,
        }), encoding="utf-8")  # fmt: skip
        return path

    def _tfopt(self, recipe: str, seed: int) -> Report:
        path = self.folder / "recipe.toml"
        path.write_text(
            recipe_text(self.name, recipe, self.epochs, self.examples), encoding="utf-8"
        )
        (self.folder / "pyproject.toml").touch()
        done = self._ended(
            [sys.executable, "-m", "tfopt_core", "train", str(path), "--seed", str(seed)],
            {"PEERS_STARTED": str(time.monotonic()), "PEERS_REPORT": str(self._out)},
        )
        if "failed" not in done and self._out.exists():
            done |= json.loads(self._out.read_text(encoding="utf-8"))
        return done

    def _run(self, python: str, module: str, task: Path, **environment: str) -> Report:
        return self._ended([python, "-m", f"peers.{module}", str(task)], environment)

    def _ended(self, command: list[str], environment: dict[str, str]) -> Report:
        self._out.unlink(missing_ok=True)
        return run_process(command, self.folder, environment)


def run_process(
    command: Sequence[str], folder: Path, environment: dict[str, str],
    limit_seconds: float = LIMIT_SECONDS,
) -> Report:  # fmt: skip
    """Run a process to its end. Return its seconds, and {"failed": why} if it failed.

    It and all that it started end with it, and where it takes too long or this race is interrupted.
    """
    began, computed = time.monotonic(), _cpu_seconds()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
        start_new_session=True, errors="replace",
        env={
            **os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(PEERS.parent),
            **environment,
        },
    )  # fmt: skip
    why = ""
    try:
        output, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        why, output = f"it took longer than {limit_seconds:.0f} s", ""
    finally:
        _end_group(process)
    done: Report = {
        "process_seconds": time.monotonic() - began, "cpu_seconds": _cpu_seconds() - computed,
    }  # fmt: skip
    if process.returncode < 0 and not why:
        why = f"ended by {signal.Signals(-process.returncode).name}"
    elif process.returncode and not why:
        why = output.strip()[-2000:] or f"exit status {process.returncode}"
    return {"failed": why, **done} if why else done


def _cpu_seconds() -> float:
    """Return what all processes have computed that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a process and what it started, if any of that still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
