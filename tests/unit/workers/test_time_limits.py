"""What counts for the time limits of a process."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from tfopt_core.records.messages import EpochDone, TurnOver
from tfopt_core.workers import supervise
from tfopt_core.workers.supervise import Limits, converse
from tfopt_core.workers.task import RunTask, encode

TOTAL, SILENCE = 50.0, 20.0


@pytest.mark.parametrize(
    ("seconds_of_turn", "seconds_of_epoch", "cause"),
    [
        (100.0, 10.0, "ended with status 0 without a result"),
        (100.0, 60.0, "took longer than its limit of 50 s"),
        (0.0, 25.0, "hung: no sign of life for 20 s"),
    ],
)
def test_the_turns_of_other_processes_do_not_count(
    monkeypatch, seconds_of_turn, seconds_of_epoch, cause
):
    """A process is stopped while it waits for its next turn; `tell` returns when it goes on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        supervise, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=lambda seconds: None)
    )
    monkeypatch.setattr(supervise, "send_task", lambda channel, task: None)
    monkeypatch.setattr(supervise, "_end_gently", lambda process: None)
    process = SimpleNamespace(
        pid=2**22 + 1, peak_rss_bytes=None, poll=lambda: None, wait=lambda timeout=None: 0
    )

    def tell(message):
        clock.now += seconds_of_turn if isinstance(message, TurnOver) else seconds_of_epoch

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            for message in (TurnOver(1), EpochDone(0, {}), TurnOver(1)):
                theirs.send(encode(message))
        limits = Limits(total=TOTAL, silence=SILENCE)
        said = converse(process, ours, object.__new__(RunTask), limits, tell)
    assert said == (None, cause)
