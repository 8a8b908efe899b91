"""What a fork server does with its first fork."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A process that is no fork server: one that had used TensorFlow would hang like this.
HANGING = """
import os, time
from tfopt_core.workers import fork_server

os.register_at_fork(after_in_child=lambda: time.sleep(600))
fork_server.FIRST_FORK_SECONDS = 0.1
assert not fork_server._can_fork()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none is left")
"""


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="no forks")
def test_a_first_fork_that_hangs_is_ended():
    done = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, check=False
    )
    assert done.stdout == "none is left\n", done.stderr
