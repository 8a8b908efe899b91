"""Run drawn scripts in forks of one process that has imported TensorFlow."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest import mock

from support.drawn_fits.case import Case, Stack, script_of
from support.drawn_fits.comparison import Outcome

# A hang is told from a machine that is busy with something else.
LIMIT_SECONDS = 120.0
START_SECONDS = 300.0
_TESTS = Path(__file__).parents[2]
_LOCK = threading.Lock()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module: each new process would import it again, and pytest with it."""
    main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class Trainer:
    """Makes each training in a process of its own, forked from one that is started once.

    :param tree: a folder whose tfopt_core and plugins are used; None uses what is installed.
    """

    def __init__(self, tree: Path | None = None) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["support.drawn_fits.preload"])
        path = filter(None, (str(_TESTS), os.environ.get("PYTHONPATH")))
        environment = {
            "PYTHONPATH": os.pathsep.join(path),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "KERAS_BACKEND": "tensorflow",
            "CUDA_VISIBLE_DEVICES": "-1",
            "DRAWN_FITS_TREE": "" if tree is None else str(tree.resolve()),
        }
        with mock.patch.dict(os.environ, environment):
            forkserver.ensure_running()  # its children have its environment
        self.run("", START_SECONDS)  # no training waits for the imports

    def __call__(self, case: Case, stack: Stack | None) -> Outcome:
        """Run a case under a stack, plain for None, and return what it left."""
        return self.run(script_of(case, stack))

    def run(self, script: str, limit_seconds: float = LIMIT_SECONDS) -> Outcome:
        """Run a script and return what it left; it is killed at the limit."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="drawn-fit-", ignore_cleanup_errors=True) as folder:
            ours, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(target=carry_out, args=(script, folder, theirs))
            with _LOCK, _without_main():
                process.start()
            theirs.close()
            found: dict[str, Any] = {"ended": "ended without a word"}
            try:
                if ours.poll(limit_seconds):
                    found = ours.recv()
                else:
                    found = {"ended": f"took more than {limit_seconds} s"}
            except EOFError:
                with contextlib.suppress(FileNotFoundError):
                    found["ended"] += (Path(folder) / "stderr").read_text(errors="replace")[-300:]
            finally:
                process.kill()
                process.join()
                ours.close()
        return Outcome(**found, seconds=time.monotonic() - began)


def carry_out(script: str, folder: str, connection: Any) -> None:
    """Run a script in this process, which has imported TensorFlow, and send what it noted."""
    os.chdir(folder)
    sys.argv = ["drawn"]
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
    import tensorflow as tf

    from support.drawn_fits import notes

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    ended = None
    try:
        exec(compile(script, "drawn.py", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        ended = notes.error_of(error)
    with contextlib.suppress(BrokenPipeError):
        connection.send({"notes": tuple(notes.NOTES), "effects": notes.EFFECTS, "ended": ended})
    connection.close()
    os._exit(0)
