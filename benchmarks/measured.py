"""What the benchmarks share: a recipe measured by the command itself, its steps' times, and
functions called in processes of their own."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tfopt_core.statistics.intervals import log_ratios, speedup_interval, t_interval

T = TypeVar("T")


def applied(recipe: str, *options: str) -> dict[str, Any]:
    """The results of `tfopt apply` on this recipe text, in a folder of its own.

    :param options: further options of the command.
    :raises SystemExit: if the command fails, with what it said.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pyproject.toml").touch()
        path = folder / "recipe.toml"
        path.write_text(textwrap.dedent(recipe), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "tfopt_core", "apply", str(path), "--json",
             str(folder / "out.json"), *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"tfopt apply failed ({done.returncode}):\n{done.stdout}\n{done.stderr}")
        return dict(json.loads((folder / "out.json").read_text(encoding="utf-8")))


def warm_step_seconds(run: dict[str, Any]) -> float:
    """Mean seconds of a step from the second epoch on, nothing traced or filled in it."""
    blocks = [b for b in run["fits"][-1]["blocks"] if b["epoch"] >= 1 and not b["cold"]]
    return float(sum(b["seconds"] for b in blocks) / sum(b["steps"] for b in blocks))


def pairs_of(results: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Baseline and full run of each round whose both runs count."""
    rounds: dict[int, dict[str, Any]] = {}
    for run in results["runs"]:
        if run["status"] == "ok":
            rounds.setdefault(run["round"], {})[run["variant"]] = run
    return [(r["baseline"], r["full"]) for r in rounds.values() if {"baseline", "full"} <= set(r)]


def speedup(base: list[float], fast: list[float]) -> str:
    """`8.2x (7.9-8.6)`: the paired 95% interval of a ratio of times."""
    ratio, low, high = speedup_interval(t_interval(log_ratios(base, fast), 0.05))
    return f"{ratio:.2f}x ({low:.2f}-{high:.2f})"


def in_fork(work: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns in a process that is forked from this one.

    TensorFlow is imported here once; its devices are opened in the fork.

    :raises SystemExit: if it fails; what it wrote stands above.
    """
    _import_tensorflow()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def called() -> None:
        from tfopt_core.hooks import RuntimeOptions
        from tfopt_core.training.runtime import start_tensorflow

        start_tensorflow(RuntimeOptions(), debug=False)
        theirs.send(work(*arguments))
        theirs.close()

    process = context.Process(target=called)
    process.start()
    theirs.close()
    try:
        result: T = ours.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"{work.__name__} failed ({process.exitcode})") from None
    process.join()
    return result


@functools.cache
def _import_tensorflow() -> None:
    """Import it, devices closed: a fork of a process that has opened them would hang."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tfopt_core.hooks import RuntimeOptions
    from tfopt_core.training.runtime import start_tensorflow

    start_tensorflow(RuntimeOptions(), debug=False, devices=False)
