"""The time that this process has run: while it is stopped, for another's turn, it stands still."""

from __future__ import annotations

from time import perf_counter_ns

_stopped_ns = 0


def running_ns() -> int:
    """Return the nanoseconds that this process has run, from an arbitrary begin."""
    return perf_counter_ns() - _stopped_ns


def stopped_ns() -> int:
    """Return the nanoseconds that this process was stopped."""
    return _stopped_ns


def leave_out_stopped(nanoseconds: int) -> None:
    """Note how long this process was stopped."""
    global _stopped_ns
    _stopped_ns += nanoseconds
