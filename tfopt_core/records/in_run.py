"""The result of an in-run contrast: two exact train functions that alternated in one training."""

from __future__ import annotations

import math
from enum import StrEnum

import attrs


class InRunVerdict(StrEnum):
    """The verdict on two training loops. The value is the word in JSON.

    The words that it shares with `Verdict` mean the same; the last three have no figures.
    """

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"
    SUSPICIOUS = "suspicious"
    # far behind in its first block, or could not be traced or compiled
    DROPPED = "dropped"
    # not far behind in its first block, and compared no further
    SCREENED = "screened"
    # no budget for it, or the training ended first
    NOT_COMPARED = "not compared"


@attrs.frozen
class Quad:
    """Four blocks in a row: the loop of each (True: the alternative), and its seconds a step."""

    order: tuple[bool, ...]
    step_seconds: tuple[float, ...]

    @property
    def log_ratio(self) -> float:
        """ln(seconds a step of the reference / of the alternative), each a geometric mean."""
        logs = zip(self.order, map(math.log, self.step_seconds), strict=True)
        return math.fsum(-log if alternative else log for alternative, log in logs) / 2

    @property
    def variance(self) -> float:
        """The variance of `log_ratio`, from the difference of each function's two blocks."""
        logs = list(zip(self.order, map(math.log, self.step_seconds), strict=True))
        (a, b), (c, d) = (
            [log for alternative, log in logs if alternative is own] for own in (True, False)
        )
        return ((a - b) ** 2 + (c - d) ** 2) / 4


@attrs.frozen(kw_only=True)
class InRun:
    """The result of an in-run contrast. `speedup` above 1: the alternative is faster a step.

    `low` and `high` are the ends of its interval, None where too few blocks were timed; `samples`
    are all quads, those after the last look too.
    """

    alternative: str
    reference: str
    verdict: InRunVerdict
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    quads: int = 0
    statement: str
    samples: tuple[Quad, ...] = ()


@attrs.frozen(kw_only=True)
class Adapted:
    """The loops that a training compared, and the one that it keeps.

    :param seconds: time of the training in which loops were compared, first calls included.
    :param steps: steps made meanwhile, of `total_steps` (None where unknown).
    """

    reference: str
    kept: str
    reason: str
    contrasts: tuple[InRun, ...] = ()
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    steps: int = 0
    total_steps: int | None = None
