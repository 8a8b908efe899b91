"""What a process leaves: the files of its private folder, its result, or the error of its end."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import (
    CannotShare,
    InputError,
    PreparationFailed,
    RecipeError,
    TfoptError,
    WorkloadError,
)
from tfopt_core.recipe.model import TargetSpec
from tfopt_core.recipe.tree import join_path
from tfopt_core.statistics.fit_figures import summarize
from tfopt_core.statistics.runs import RunResult, RunStatus
from tfopt_core.training.messages import RunFacts, RunReport
from tfopt_core.trials.request import Request, ScheduledRun
from tfopt_core.workers.local_cluster import is_role_folder
from tfopt_core.workers.spawn import OUTPUT_FILE, ProcessOutcome
from tfopt_core.workers.task import Failure, OthersServed

# The files that a run leaves in its folder: its output, and the model if it is saved.
MODEL_FILE = "model.keras"
KEPT = (OUTPUT_FILE, MODEL_FILE)
# Longer outputs keep their beginning and their end: a script may print a million lines.
OUTPUT_BYTES = 2**20
OUTPUT_LINES = 16
# TensorFlow's messages at its start, before any log level takes effect.
_NOISE = re.compile(r"WARNING: All log messages before absl|[IWE]0000 \d\d:\d\d:|[IWE]\d{4} \d\d:")
CRASH_LINES = 8


def last_words(output: str) -> list[str]:
    """Return the lines of an output that show how it ended: its crash, else the last lines."""
    lines = [line for line in output.splitlines() if not _NOISE.match(line)]
    crash = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    if crash is None:
        return lines[-OUTPUT_LINES:]
    # faulthandler's frames of the crashed thread, innermost first; a list of modules follows
    dump = lines[crash:]
    thread = next((i for i, line in enumerate(dump) if line.startswith("Current thread")), 1)
    return [dump[0], *dump[thread : thread + CRASH_LINES]]


def remove_private_files(folder: Path) -> None:
    """Remove the files that a process left in its private folder, such as those of a disk cache."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name == OUTPUT_FILE:
            _shorten(entry)
        if entry.name in KEPT:
            continue
        if entry.is_dir() and not entry.is_symlink() and is_role_folder(entry.name):
            remove_private_files(entry)
        elif entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _shorten(output: Path) -> None:
    """Keep the beginning and the end of a long output, half of the limit each."""
    size, half = output.stat().st_size, OUTPUT_BYTES // 2
    if size <= OUTPUT_BYTES:
        return
    with output.open("rb") as file:
        head = file.read(half)
        file.seek(size - half)
        tail = file.read()
    left_out = f"\n... {size - 2 * half:,} bytes left out ...\n".encode()
    output.write_bytes(head + left_out + tail)


def run_folder(folder: Path, round_: int, position: int, variant: str) -> Path:
    """Return the private folder of one run, within that of its measurement."""
    return folder / f"{round_:02d}-{position}-{variant}".replace(" ", "-")


def left_behind(outcome: ProcessOutcome, what: str) -> tuple[str, ...]:
    """Return a warning about processes that outlived this one."""
    if not outcome.left_behind:
        return ()
    named = ", ".join(f'"{command}"' for command in outcome.left_behind)
    return (f"{what} left processes in sessions of their own, which were ended: {named}",)


def result_of(
    outcome: ProcessOutcome, scheduled: ScheduledRun, run_id: str, target: TargetSpec | None
) -> RunResult:
    """Return the result of a run whose process has ended.

    :param target: that of the recipe.
    """
    report, facts = outcome.message, dict[str, Any]()
    status: RunStatus = "served" if isinstance(report, OthersServed) else "failed"
    error = report.message if isinstance(report, Failure) else outcome.cause
    if isinstance(report, RunReport):
        facts = {field.name: getattr(report, field.name) for field in attrs.fields(RunFacts)}
        facts.update(fits=tuple(summarize(fit, target) for fit in report.fits))
        error = report.why_failed
        status = "ok" if error is None else "failed"
    elif status == "failed":
        facts["out_of_memory"] = outcome.out_of_memory
    notes = (*facts.pop("notes", ()), *left_behind(outcome, "a run"))
    words = "\n".join(last_words(outcome.output_tail)) if status == "failed" else ""
    return RunResult(
        **{**facts, "written": outcome.written, "notes": notes},
        id=run_id, variant=scheduled.variant.name, round=scheduled.round,
        position=scheduled.position, seed=scheduled.seed, status=status,
        process_seconds=outcome.seconds, started=outcome.started, error=error,
        output_path=None if outcome.output_path is None else str(outcome.output_path),
        output_tail=words or None,
    )  # fmt: skip


def error_of(outcome: ProcessOutcome, what: str, request: Request) -> TfoptError:
    """Return the error of a process that trains nothing and failed.

    :param what: the work of the process, such as "the dry build".
    """
    failure = outcome.message
    error: TfoptError
    if not isinstance(failure, Failure):
        error = PreparationFailed(f"{what}: {outcome.cause}", last_words(outcome.output_tail))
    elif failure.error == CannotShare.__name__:
        error = CannotShare(failure.message)
    else:
        text = failure.message
        if request.debug and outcome.output_tail:
            text = f"{outcome.output_tail.rstrip()}\n{text}"
        if failure.error == WorkloadError.__name__:
            key = f"workload.{request.recipe.workload.key}"
            if failure.option:
                of_stack = failure.option in request.recipe.workload.options
                table = "workload.options" if of_stack else "measure.baseline.options"
                key = join_path(table, (failure.option,))
            error = RecipeError([request.reading.problem(key, text)])
        else:
            is_input = failure.exit_code == InputError.exit_code
            error = InputError(text) if is_input else PreparationFailed(text)
    error.out_of_memory = outcome.out_of_memory
    return error
