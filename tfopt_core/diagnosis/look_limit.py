"""Limit how long a first look takes: it says what a step costs so far, and repeats less."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import attrs

from tfopt_core.statistics.wording import seconds_in_words

LOOK_SECONDS = 30.0
# About how many steps a look makes that repeats each loop as often as it likes.
USUAL_STEPS = 24


@attrs.define(eq=False)
class LookLimit:
    """How long a look may take before it repeats its loops less often.

    :param tell: called with a sentence when that begins.
    :param seconds: the limit.
    :param step_seconds: what a step costs so far, None before one was timed.
    """

    tell: Callable[[str], None]
    seconds: float = LOOK_SECONDS
    now: Callable[[], float] = monotonic
    step_seconds: float | None = None
    _begun: float = attrs.field(init=False)
    _told: str = attrs.field(default="", init=False)

    @_begun.default
    def _begin(self) -> float:
        return self.now()

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return self.now() - self._begun > self.seconds

    def is_short(self) -> bool:
        """Return whether what is left of the time is too short for the usual repetitions. It says
        so the first time."""
        left = self.seconds - (self.now() - self._begun)
        if left > USUAL_STEPS * (self.step_seconds or 0.0):
            return False
        self._say()
        return True

    def learn(self, step_seconds: float) -> None:
        """Note what a step costs, and say it if the time is over."""
        self.step_seconds = step_seconds
        if self._told:
            self._say()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Say what a step costs so far once the time is over, while this block runs."""
        # a step of many seconds must not delay the sentence: it is sent from another thread
        timer = threading.Timer(self.seconds, self._say)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _say(self) -> None:
        text = f"{self._cost()}: going on with fewer repetitions"
        if text != self._told:
            self._told = text
            self.tell(text)

    def _cost(self) -> str:
        if self.step_seconds is None:
            return (
                f"no step could be timed in {seconds_in_words(self.seconds)}, since one takes long"
            )
        return f"a step takes about {self.step_seconds:.2g} s so far"
