"""Run drawn scripts in forks of one process that has imported TensorFlow."""

import os
import pickle
import subprocess
import tempfile
from pathlib import Path

from support import forked_command
from support.drawn_fits.case import Case, Stack, script_of
from support.drawn_fits.comparison import Outcome
from support.real_process import environment

# A hang is told from a machine that is busy with something else.
LIMIT_SECONDS = 120.0
PROGRAM = "import sys; from support.drawn_fits.notes import carry_out; carry_out(*sys.argv[1:])"
_TESTS = Path(__file__).parents[2]


class Trainer:
    """Makes each training in a process of its own, forked from one that is started once."""

    def __init__(self) -> None:
        path = filter(None, (str(_TESTS), os.environ.get("PYTHONPATH")))
        self._environment = environment(
            PYTHONPATH=os.pathsep.join(path), KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="-1"
        )
        self._server = forked_command.new_server(
            self._environment, "h5py", "support.drawn_fits.names"
        )

    def __call__(self, case: Case, stack: Stack | None) -> Outcome:
        """Run a case under a stack, plain for None, and return what it left."""
        return self.run(script_of(case, stack))

    def run(self, script: str, limit_seconds: float = LIMIT_SECONDS) -> Outcome:
        """Run a script and return what it left; it is killed at the limit."""
        with (
            tempfile.TemporaryDirectory(prefix="drawn-fit-", ignore_cleanup_errors=True) as name,
            open(os.devnull) as null,
            tempfile.TemporaryFile("w+", errors="replace") as output,
        ):
            folder, left = Path(name, "work"), Path(name, "outcome")
            folder.mkdir()
            process = forked_command.start(
                ["-c", PROGRAM, script, str(left)], folder, self._environment,
                [null.fileno(), output.fileno(), output.fileno()], server=self._server,
            )  # fmt: skip
            try:
                process.wait(limit_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                return Outcome(ended=f"took more than {limit_seconds} s")
            if left.exists():
                return Outcome(**pickle.loads(left.read_bytes()))
            output.seek(0)
            return Outcome(ended=f"ended without a word: {output.read()[-300:]}")
