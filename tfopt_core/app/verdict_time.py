"""When a first contact owes its first verdict, and how long it may try plugins before."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import attrs

from tfopt_core.statistics.wording import seconds_in_words

# Two minutes, or half of one training if that is more.
VERDICT_SECONDS, SHARE_OF_TRAINING = 120.0, 0.5
# Once a plugin stays, no further one is tried after this share of that time: four pairs of runs
# take the rest. Until then all of it is for trying. Even after a longer look some are tried.
TRYING_SHARE, ALWAYS_TRIED = 0.4, 3


@attrs.define(eq=False)
class VerdictTime:
    """The time since the command began, against that of the first verdict.

    :param wanted: whether a first verdict is wanted in this time; not if the user has said how long
        measuring may take.
    :param training_seconds: about what one training takes; None before that is known.
    """

    wanted: bool = True
    now: Callable[[], float] = monotonic
    training_seconds: float | None = None
    _begun: float = attrs.field(init=False)

    @_begun.default
    def _begin(self) -> float:
        return self.now()

    @property
    def elapsed(self) -> float:
        """The seconds since the command began."""
        return self.now() - self._begun

    @property
    def seconds(self) -> float:
        """The seconds after which the first verdict is due."""
        return max(VERDICT_SECONDS, SHARE_OF_TRAINING * (self.training_seconds or 0.0))

    def left(self) -> float:
        """Return the seconds until the first verdict is due, at least 0."""
        return max(0.0, self.seconds - self.elapsed)

    def why_not_try(self, tried: int, *, found: bool = False) -> str:
        """Return why no further plugin is tried, "" if one may be.

        :param tried: how many were tried already.
        :param found: whether one of them stays, so that there is something to measure.
        """
        longest = (TRYING_SHARE if found else 1.0) * self.seconds
        if not self.wanted or tried < ALWAYS_TRIED or self.elapsed <= longest:
            return ""
        over = f"not tried: {seconds_in_words(self.elapsed)} have passed"
        if found:
            return f"{over}, and the rest of the time until a first verdict is for the pairs"
        most = seconds_in_words(self.seconds)
        return f"{over}, and a first contact tries plugins for {most} at most"

    def plan(self, script: str) -> str:
        """Return what will be done in this time, in a sentence."""
        what = f"looking at {script} for up to 30 s, trying what it proposes, then pairs of runs"
        if not self.wanted:
            return what
        due = f"a first verdict within about {seconds_in_words(self.seconds)}"
        return f"{what}: {due}, or half of one training if that is longer"
