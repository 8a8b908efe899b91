"""Code run in a private folder, in a process of its own, as a run of a script is."""

import json
import os
import sys
from pathlib import Path

import attrs
import pytest

from support.real_process import python, run
from tfopt_core.scripts.folders.copied_folder import CopiedFolder
from tfopt_core.scripts.folders.private_folder import OverlayMounts, why_no_overlay

WAYS = ("overlay", "copy")
PROGRAM = """
import json, os, sys
folder, code = json.loads(sys.argv[1])
os.chdir(folder)
error = None
try:
    exec(code, {})
except OSError as raised:
    error = str(raised)
sys.stdout.flush()
print(json.dumps(error))
"""


@attrs.frozen
class PrivateRun:
    """What became of it: the files that it wrote, what it raised and what it printed."""

    written: dict[str, str]
    error: str | None
    printed: str


def run_privately(way: str, original: Path, code: str, *, imported: bool = False) -> PrivateRun:
    """Run the code in a private folder of this kind; skip the test where the kernel refuses it.

    :param imported: fork it from a process with TensorFlow imported, where nothing is mounted.
    """
    results = original / ".tfopt"
    place = results / f"run-{len(list(results.glob('*')))}"
    if way == "copy":
        private = CopiedFolder.make(original, place, "a test")
    else:
        if (why := why_no_overlay(original, results)) is not None:
            pytest.skip(f"no overlay can be mounted here: {why}")
        private = OverlayMounts.of(original, place, results)
    given = json.dumps([str(private.path_of(original)), code])
    if imported and way == "copy":
        done = python("-c", PROGRAM, given, cwd=Path.cwd())
    else:
        command = [*private.command(), sys.executable, "-P", "-c", PROGRAM, given]
        done = run(command, cwd=Path.cwd(), env=os.environ)
    assert done.code == 0, done.err
    *printed, last = done.out.splitlines()
    error = json.loads(last)
    changes = dict(text.removesuffix(")").rsplit(" (", 1) for text in private.written())
    return PrivateRun(changes, error and private.in_words(error), "\n".join(printed))
