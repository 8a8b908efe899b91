"""Tell other machines that a trial is alive, and notice one that is not any more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs

BEAT_SECONDS = 20.0
# A trial is dead that has not beaten for so long by the clock of the one that looks: clocks of
# machines differ, so a beat names no time.
SILENT_SECONDS = 120.0
# How long the end of a trial waits for a beat that is being written.
STOP_SECONDS = 5.0


class Heartbeat:
    """Calls `write` with a beat at once and every few seconds until it is stopped.

    A beat that cannot be written is left out: the trial's own calls say what is wrong.
    """

    def __init__(self, write: Callable[[int], object], seconds: float) -> None:
        self._write, self._seconds = write, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, name="heartbeat", daemon=True)
        self._thread.start()

    def _go(self) -> None:
        count = 0
        while not self._stopped.is_set():
            with contextlib.suppress(Exception):
                self._write(count)
            count += 1
            self._stopped.wait(self._seconds)

    def stop(self) -> None:
        """Write no further beat."""
        self._stopped.set()
        # a write may hang with its storage
        self._thread.join(timeout=STOP_SECONDS)


@attrs.define(eq=False)
class BeatsSeen:
    """The last beat of each trial, and when it was first seen.

    :param now: a monotonic clock.
    """

    now: Callable[[], float] = time.monotonic
    _last: dict[int, tuple[Any, float]] = attrs.field(factory=dict)

    def is_dead(self, number: int, beat: Any) -> bool:
        """Return whether a trial has been silent for too long.

        :param number: of the trial.
        :param beat: its last one as the storage has it, which may be anything.
        """
        now = self.now()
        last, since = self._last.setdefault(number, (beat, now))
        if last != beat:
            self._last[number] = (beat, now)
            return False
        return now - since > SILENT_SECONDS
