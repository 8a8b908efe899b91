"""A process that closes its connection and goes on can give no result, and is not waited for."""

import socket
import subprocess
import sys
import time

import pytest

from tfopt_core.workers import supervise
from tfopt_core.workers.supervise import NO_LIMITS, Limits, converse, end_group
from tfopt_core.workers.task import RunTask

HANGS = """
import os, signal, time
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.closerange(0, 256)
time.sleep({seconds})
"""


class Child(subprocess.Popen[bytes]):
    """A worker process that nothing waits for but this one."""

    left_behind: tuple[str, ...] = ()
    peak_rss_bytes: int | None = None


def told(limits: Limits, seconds: float) -> tuple[object, str | None]:
    """Return the last message of a process that closes all files and then sleeps, and the cause."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = Child(
                [sys.executable, "-c", HANGS.format(seconds=seconds)],
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        try:
            return converse(process, ours, RunTask(job=None), limits, print)
        finally:
            end_group(process)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "send_task", lambda channel, task: None)
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(supervise, "DUMP_SECONDS", 0.0)


def test_a_process_that_closes_all_its_files_and_hangs_is_ended() -> None:
    begun = time.monotonic()
    assert told(Limits(), 600) == (None, "closed its connection to tfopt and did not end")
    assert time.monotonic() - begun < 60


@pytest.mark.thorough
def test_a_training_without_limits_is_waited_for() -> None:
    assert told(NO_LIMITS, 1.5) == (None, "ended with status 0 without a result")


def test_a_server_that_is_called_off_is_not_waited_for() -> None:
    """Its chief ends once the server has closed its connection, and hangs."""
    later = time.monotonic() + 1.5
    limits = Limits(silence=None, called_off=lambda: "ended" if time.monotonic() > later else None)
    assert told(limits, 20) == (None, "ended")
