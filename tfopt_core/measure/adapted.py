"""Which exact loops a training compares, in what order, and which of them it keeps. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import attrs

from tfopt_core.measure.in_run import InRun
from tfopt_core.training.loops import Loop, Offer

# Dispatch shrinks with the steps a call: where one size gains less, the next ones gain nothing.
LEAST_GAIN = 1.03


@attrs.frozen(kw_only=True)
class Adapted:
    """What a training compared, and which loop it keeps and why.

    :param seconds: of training in which loops were compared, first calls included.
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


def candidates(offer: Offer) -> Generator[Loop, InRun, None]:
    """What to compare with the reference, given what came of the loops before."""
    reference = offer.reference
    best, speedup = reference.steps, 1.0
    for steps in offer.steps:
        result = yield Loop(steps, reference.jit_compile)
        if result.verdict != "faster" or result.speedup is None:
            break
        gain, speedup = result.speedup / speedup, max(speedup, result.speedup)
        if gain > 1:
            best = steps
        if gain < LEAST_GAIN:
            break
    if offer.other_jit_compile:
        yield Loop(best, not reference.jit_compile)


def fastest(results: Mapping[Loop, InRun]) -> Loop | None:
    """The loop whose gain is surely the largest, by the low end; None if none is faster."""
    # by the means a loop that was timed in a noisy moment would win as often as not
    sure = {loop: r.low for loop, r in results.items() if r.verdict == "faster" and r.low}
    return max(sure, key=lambda loop: sure[loop], default=None)


def why_kept(offer: Offer, kept: Loop, results: Sequence[InRun]) -> str:
    """Why this loop is kept, in a phrase."""
    judged = sum(result.speedup is not None for result in results)
    if offer.empty:
        return "; ".join(offer.left_out) or "nothing to adapt"
    if kept != offer.reference:
        return "the largest gain that is sure" if judged > 1 else "faster than the stack's own loop"
    if judged:
        return "the stack's own loop; nothing compared with it is faster"
    return "the stack's own loop; nothing could be compared with it"
