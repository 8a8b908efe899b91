"""The program between tfopt and a run's process: it ends whatever the run leaves behind.

    python -I -S reaper.py CONTROL PASSED PROGRAM...

A process that calls `setsid` leaves its run's session, and would outlive it. The kernel hands the
orphans of a run to this process ("child subreaper"), which ends and reports them. tfopt's own
process, or a notebook that embeds it, is no subreaper. This one starts PROGRAM in a new session and
sends its pid, then its exit status, peak memory and what it left behind, each as a packet of JSON
on CONTROL. It imports the standard library only, since it starts before each run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

# From <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36
# A killed process is gone at once, unless it waits for a device.
END_SECONDS = 5.0
POLL_SECONDS = 0.01
# The most processes left behind that are named, and the most letters of each.
MOST_NAMED, MOST_LETTERS = 5, 100


def main(arguments: list[str]) -> int:
    """Run a program, and end everything that it leaves behind. Return the exit code."""
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    passed, program = int(arguments[1]), arguments[2:]
    become_subreaper()
    pid = os.posix_spawn(
        program[0], program, os.environ, setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them, and a program may not
    )  # fmt: skip
    os.close(passed)  # its other end is to notice when the program ends
    keep(control, pid)
    return 0


def keep(control: socket.socket, pid: int) -> None:
    """Tell how a process ends, end it if the parent is gone, and end whatever it leaves behind."""
    ended = threading.Event()
    threading.Thread(target=end_with_parent, args=(control, pid, ended), daemon=True).start()
    tell(control, pid=pid)
    status, peak = wait_for(pid)
    ended.set()
    tell(control, status=status, peak_rss_bytes=peak, left_behind=end_orphans(pid))


def become_subreaper() -> None:
    """Have the kernel hand this process the orphans among its descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def wait_for(pid: int) -> tuple[int, int]:
    """Return the exit status of a child, negative for a signal, and the largest resident memory
    that it had, in bytes; collect ended orphans too."""
    while True:
        ended, status, used = os.wait4(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024


def end_orphans(leader: int) -> list[str]:
    """Kill what is left of a session, and every orphan of it that has left it.

    :param leader: the session's first process, which has ended.
    :returns: the command lines of those that had left it; only some of many.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    commands: dict[int, str] = {}
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:  # none is left
            break
        for pid, group in _children():
            if group != leader and pid not in commands:
                commands[pid] = _command(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    named = sorted(commands.values())
    more = len(named) - MOST_NAMED
    return [*named[:MOST_NAMED], f"{more} more"] if more > 0 else named


def tell(control: socket.socket, **fields: object) -> None:
    """Send one packet, if the parent is still there: the rest is done all the same."""
    with contextlib.suppress(BrokenPipeError):
        control.send(json.dumps(fields).encode())


def _children() -> Iterator[tuple[int, int]]:
    """Yield the living children of this process, and the process group of each."""
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry.name}/stat", encoding="utf-8", errors="replace") as file:
                # the name, which may hold any character, is in parentheses
                state, parent, group = file.read().rpartition(")")[2].split()[:3]
            if int(parent) == own and state != "Z":
                yield int(entry.name), int(group)


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            words = file.read().replace("\0", " ").strip()
    except OSError:
        words = ""
    return words[:MOST_LETTERS] or f"process {pid}"


def end_with_parent(control: socket.socket, pid: int, ended: threading.Event) -> None:
    """Kill the run once the stream ends: then the parent is gone.

    :param ended: set once the run has ended, and its number may be that of another process.
    """
    with contextlib.suppress(OSError):
        while control.recv(1):
            pass
    with contextlib.suppress(ProcessLookupError):
        if not ended.is_set():
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
