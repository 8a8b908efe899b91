"""Processes of a benchmark, which end with all that they started."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

BENCHMARKS = Path(__file__).resolve().parents[1]
# A process that takes longer has failed, and so has the option of the grid that it was trying.
LIMIT_SECONDS = 400.0


def run_process(
    command: Sequence[str], folder: Path, environment: dict[str, str],
    limit_seconds: float = LIMIT_SECONDS,
) -> dict[str, Any]:  # fmt: skip
    """Run a process to its end. Return its seconds, and {"failed": why} if it failed.

    It and all that it started end with it, and where it takes too long or this race is interrupted.
    """
    began, computed = time.monotonic(), _cpu_seconds()
    process = start_process(command, folder, environment, subprocess.PIPE)
    why = ""
    try:
        output, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        why, output = f"it took longer than {limit_seconds:.0f} s", ""
    finally:
        end_group(process)
    why = why or why_failed(process.returncode, output)
    done: dict[str, Any] = {
        "process_seconds": time.monotonic() - began, "cpu_seconds": _cpu_seconds() - computed,
    }  # fmt: skip
    return {"failed": why, **done} if why else done


def start_process(
    command: Sequence[str], folder: Path, environment: dict[str, str], output: int | IO[str]
) -> subprocess.Popen[str]:
    """Start a process that leads a session, with benchmarks/ among what it imports from."""
    return subprocess.Popen(
        command, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=folder,
        start_new_session=True, errors="replace",
        env={
            **os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(BENCHMARKS), **environment,
        },
    )  # fmt: skip


def why_failed(status: int, output: str) -> str:
    """Return why a process has failed that ended so, "" if it has not."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return (output.strip()[-2000:] or f"exit status {status}") if status else ""


def end_group(process: subprocess.Popen[str]) -> None:
    """End a process and what it started, if any of that still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _cpu_seconds() -> float:
    """Return what all processes have computed that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
