"""Which exact loops a training compares, in what order, and which of them it keeps. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import attrs

from tfopt_core.measure.in_run import InRun
from tfopt_core.training.loops import Loop, Offer

# Dispatch shrinks with the steps a call: where one size gains less, the next ones gain nothing.
LEAST_GAIN = 1.03
# A call costs some 0.5 ms of dispatch, so one that lasts so long already has next to nothing left
# to gain from more steps; and the first size that is compared has calls of at least 5 ms.
LONG_CALL_SECONDS, FIRST_CALL_SECONDS = 0.05, 0.005


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


def candidates(offer: Offer, step_seconds: float) -> Generator[Loop, InRun, None]:
    """What to compare with the reference, given what came of the loops before.

    First more steps a call, then the other choice of XLA, then still more steps with the better of
    the two. Where a step is long, XLA is compared a step at a time: what is far slower is dropped
    soon then.

    :param step_seconds: of the reference.
    """
    reference = offer.reference
    best, speedup = reference, 1.0

    def better(loop: Loop, result: InRun) -> bool:
        nonlocal best, speedup
        gain = (result.speedup or 0.0) / speedup if result.verdict == "faster" else 0.0
        if gain > 1:
            best, speedup = loop, gain * speedup
        return gain >= LEAST_GAIN

    def lasts(loop: Loop) -> float:
        return loop.steps * step_seconds / speedup

    sizes = offer.steps if lasts(reference) < LONG_CALL_SECONDS else ()
    first = next(
        (s for s in sizes if s * step_seconds >= FIRST_CALL_SECONDS), max(sizes, default=0)
    )
    if first:
        loop = Loop(first, reference.jit_compile, "chunked")
        better(loop, (yield loop))
    if offer.other_jit_compile:
        steps = first or reference.steps
        kind = "chunked" if first else reference.kind
        loop = Loop(steps, not reference.jit_compile, kind)
        better(loop, (yield loop))
    for steps in sizes:
        if steps <= best.steps or steps <= first:
            continue
        loop = Loop(steps, best.jit_compile, "chunked")
        if lasts(best) >= LONG_CALL_SECONDS or not better(loop, (yield loop)):
            break


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
