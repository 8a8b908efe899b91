"""Rounds within a given time: what benchmarks share that take long and go on where they were."""

from __future__ import annotations

import argparse
import signal
import time
from datetime import UTC, datetime
from typing import Protocol


class OutOfTime(Exception):
    """What is left of a benchmark does not fit into the time that was given."""


class Paced(Protocol):
    """A benchmark that begins nothing that would end after `until`, a monotonic time."""

    until: float

    def left(self) -> tuple[int, float]:
        """Return how many runs are left and about how many seconds they take."""

    def run(self) -> None:
        """Run all that is left.

        :raises OutOfTime: if the time ends before that.
        """


def add_pacing(parser: argparse.ArgumentParser) -> None:
    """Add the options `--minutes` and `--plan`."""
    parser.add_argument("--minutes", type=float, help="begin no round that would end later")
    parser.add_argument("--plan", action="store_true", help="only say what is left to run")


def fits(until: float, seconds: float) -> bool:
    """Return whether what takes so many seconds ends before this monotonic time."""
    return time.monotonic() + seconds <= until


def run_within(benchmark: Paced, minutes: float | None) -> str:
    """Run what is left, and print how the time ended it. Return that in words, "" at its end.

    :param minutes: None for no limit.
    """
    if minutes is not None:
        benchmark.until = time.monotonic() + 60 * minutes
    # in the background a shell has SIGINT ignored; SIGTERM would leave what it started running
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    ended = ""
    try:
        benchmark.run()
    except OutOfTime:
        ended = f"{minutes:g} minutes are over"
    except KeyboardInterrupt:
        ended = "interrupted"
    if ended:
        say(f"{ended}; {benchmark.left()[0]} runs are left, and the same command goes on")
    return ended


def say_what_is_left(benchmark: Paced) -> None:
    """Print how many runs are left and about how long they take."""
    count, seconds = benchmark.left()
    say(f"{count} runs are left, about {seconds / 60:.0f} minutes on two idle cores")


def say(text: str) -> None:
    """Print a line with the time of day."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)
