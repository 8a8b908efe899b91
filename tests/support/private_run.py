"""Code run in a private folder, in a process of its own, as a run of a script is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import attrs
import pytest

from support.real_process import python, run
from tfopt_core.training.scripts.overlay_folder import OverlayMounts, why_no_overlay

WAYS = ("overlay", "copy")
PROGRAM = """
import json, os, sys
from pathlib import Path

from tfopt_core.training.scripts.private_folder import PrivateFolder
from tfopt_core.training.scripts import copied_folder, write_watch

way, original, place, folders, code, constants = json.loads(sys.argv[1])
for name, value in constants.items():
    setattr(copied_folder, name, value)
original = Path(original)
if way == "overlay":
    private = PrivateFolder(original, write_watch.WriteWatch(tuple(folders), str(original)))
else:
    private = copied_folder.CopiedFolder.make(original, Path(place), "a test")
os.chdir(private.path_of(original))
error = None
with private.watch.on():
    try:
        exec(code, {})
    except OSError as raised:
        error = private.in_words(str(raised))
sys.stdout.flush()
print(json.dumps([private.written(), list(private.notes()), error]))
"""
# Put before code whose writes to temporary folders, in which tests work, are to be noted.
NOTED = """
from tfopt_core.training.scripts import write_watch
object.__setattr__(write_watch._watch, "unnoted", ("/dev",))
"""


@attrs.frozen
class PrivateRun:
    """What became of it: the files that it wrote, the notes, what it raised and what it printed."""

    written: dict[str, str]
    notes: list[str]
    error: str | None
    printed: str


def run_privately(
    way: str, original: Path, code: str, *, imported: bool = False, **constants: int
) -> PrivateRun:
    """Run the code in a private folder of this kind; skip the test where the kernel refuses it.

    :param imported: fork it from a process with TensorFlow imported, where nothing is mounted.
    :param constants: of `copied_folder`, by name.
    """
    results = original / ".tfopt"
    place = results / f"run-{len(list(results.glob('*')))}"
    mounts, command = OverlayMounts.of(original, place, results), [sys.executable]
    if way == "overlay":
        if (why := why_no_overlay(original, results)) is not None:
            pytest.skip(f"no overlay can be mounted here: {why}")
        command = [*mounts.command(), sys.executable]
    given = json.dumps([way, str(original), str(place), mounts.folders, code, constants])
    if imported and way == "copy":
        done = python("-c", PROGRAM, given, cwd=Path.cwd())
    else:
        done = run([*command, "-P", "-c", PROGRAM, given], cwd=Path.cwd(), env=os.environ)
    assert done.code == 0, done.err
    *printed, last = done.out.splitlines()
    written, notes, error = json.loads(last)
    texts = mounts.written() if way == "overlay" else written
    changes = dict(text.removesuffix(")").rsplit(" (", 1) for text in texts)
    return PrivateRun(changes, notes, error, "\n".join(printed))
