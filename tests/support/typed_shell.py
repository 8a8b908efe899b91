"""An interactive shell on a terminal of its own, to which keys are typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

# Generous: the machine may be busy.
ANSWER_SECONDS = 240.0
_ESCAPES = re.compile(r"\x1b(\[[0-9;?>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[=>()][A-Z0-9]?)")


class TypedShell:
    """Types keys, and reads what the terminal shows.

    :param terminal: the file descriptor of the terminal's other end.
    """

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def press(self, keys: str) -> None:
        """Type keys; "\\t" is the key that completes."""
        os.write(self._terminal, keys.encode())

    def read_until(self, text: str) -> str:
        """Return what the terminal shows from here on, at the latest once it shows this."""
        shown = ""
        end = time.monotonic() + ANSWER_SECONDS
        while text not in shown and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.1)[0]:
                shown += os.read(self._terminal, 65536).decode(errors="replace")
                shown = _ESCAPES.sub("", shown)
        return shown


def _control_terminal() -> None:
    """Make standard input the terminal that controls this session; fish needs one."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def typed_shell(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator[TypedShell]:
    """Start an interactive shell in a folder, and end it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environment), cwd=folder,
        start_new_session=True, preexec_fn=_control_terminal,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield TypedShell(ours)
        finally:
            process.kill()
            os.close(ours)
