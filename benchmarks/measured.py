"""Functions that benchmarks share: measure a recipe by the command, and call work in a fork."""

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

from tfopt_core.statistics.intervals import LEVEL, log_ratios, speedup_interval, t_interval

T = TypeVar("T")


def applied(recipe: str, *options: str) -> dict[str, Any]:
    """Return the results of `tfopt apply` on this recipe text, run in a temporary folder.

    :param options: further options of the command.
    :raises SystemExit: if the command fails, with its output.
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
    """Return the mean seconds of a step from the second epoch on, without cold blocks."""
    blocks = [b for b in run["fits"][-1]["blocks"] if b["epoch"] >= 1 and not b["cold"]]
    return float(sum(b["seconds"] for b in blocks) / sum(b["steps"] for b in blocks))


def pairs_of(results: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the baseline's and the full run of each round whose both runs count."""
    rounds: dict[int, dict[str, Any]] = {}
    for run in results["runs"]:
        if run["status"] == "ok":
            rounds.setdefault(run["round"], {})[run["variant"]] = run
    return [(r["baseline"], r["full"]) for r in rounds.values() if {"baseline", "full"} <= set(r)]


def speedup(base: list[float], fast: list[float], level: float = LEVEL) -> str:
    """Return `8.2x (7.9-8.6)`, the ratio of times with its paired interval.

    :param level: the two-sided error rate, that of a 95% interval by default.
    """
    ratio, low, high = speedup_interval(t_interval(log_ratios(base, fast), level))
    return f"{ratio:.2f}x ({low:.2f}-{high:.2f})"


def in_fork(work: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns in a process that is forked from this one.

    TensorFlow is imported here once; its devices are opened in the fork.

    :raises SystemExit: if it fails; its error was printed before.
    """
    _import_tensorflow()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def called() -> None:
        from tfopt_core.hooks.values import RuntimeOptions
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
    """Import TensorFlow without opening devices: a fork with open devices would hang."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tfopt_core.hooks.values import RuntimeOptions
    from tfopt_core.training.runtime import start_tensorflow

    start_tensorflow(RuntimeOptions(), debug=False, devices=False)
