"""The files that a run leaves in its private folder, and what its output says of its end."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tfopt_core.workers.local_cluster import is_role_folder
from tfopt_core.workers.spawn import OUTPUT_FILE

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
