"""Which exact loops a training compares, in what order, and which it keeps. Pure functions."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import attrs

from tfopt_core.records.in_run import InRun, InRunVerdict
from tfopt_core.training.loops.exact_loops import Loop, Offer

# A call costs up to 5 ms with its data, so one that lasts so long has next to nothing left to gain
# from more steps, and a step that lasts so long has nothing to gain from company.
LONG_CALL_SECONDS = 0.1
# What several steps a call save of each step at most, on a busy machine.
DISPATCH_SECONDS = 0.002
# Of longer steps XLA makes a few first: it may be 15 times slower.
LONG_STEP_SECONDS = 0.005


@attrs.frozen
class LoopTrial:
    """A loop to compare with the reference; `screen` ends that after the loop's first block."""

    loop: Loop
    screen: bool = False


def candidates(
    offer: Offer, step_seconds: float, *, steps_first: bool = False
) -> Generator[LoopTrial, InRun, None]:
    """Yield what to compare with the reference, given what came of the loops before.

    The other choice of XLA comes first, since it matters most; where steps are long, one block of
    a few must show that it is not far behind. Then as many steps a call without it, unless XLA has
    gained more than these can. How many are enough: the fewest that make a long call.

    :param step_seconds: of the reference.
    :param steps_first: compare more steps a call before XLA, whose compiling may take all the time
        that there is.
    """
    reference, other = offer.reference, not offer.reference.jit_compile
    steps = _enough_steps(offer, step_seconds)
    gained = 0.0
    if steps and steps_first:
        yield LoopTrial(Loop(steps, reference.jit_compile, "chunked"))
    if offer.other_jit_compile and not steps:
        yield LoopTrial(Loop(reference.steps, other, reference.kind))
    elif offer.other_jit_compile:
        few = min(offer.steps)
        dropped = False
        if few < steps and step_seconds >= LONG_STEP_SECONDS:
            screened = yield LoopTrial(Loop(few, other, "chunked"), screen=True)
            dropped = screened.verdict is InRunVerdict.DROPPED
        if not dropped:
            result = yield LoopTrial(Loop(steps, other, "chunked"))
            gained = (result.low or 0.0) if result.verdict is InRunVerdict.FASTER else 0.0
    if steps and not steps_first and gained < 1 + DISPATCH_SECONDS / step_seconds:
        yield LoopTrial(Loop(steps, reference.jit_compile, "chunked"))


def _enough_steps(offer: Offer, step_seconds: float) -> int:
    """Return the fewest offered steps that make a long call, the most if none does, 0 for none."""
    if offer.reference.steps * step_seconds >= LONG_CALL_SECONDS:
        return 0
    long = (size for size in offer.steps if size * step_seconds >= LONG_CALL_SECONDS)
    return next(long, max(offer.steps, default=0))


def fastest(results: Mapping[Loop, InRun]) -> Loop | None:
    """Return the loop whose gain is surely the largest, by the low end; None if none is faster."""
    # by the means a loop that was timed in a noisy moment would win as often as not
    sure = {
        loop: r.low for loop, r in results.items() if r.verdict is InRunVerdict.FASTER and r.low
    }
    return max(sure, key=lambda loop: sure[loop], default=None)


def why_kept(offer: Offer, kept: Loop, results: Sequence[InRun]) -> str:
    """Return why this loop is kept, in a phrase."""
    judged = sum(result.speedup is not None for result in results)
    if offer.empty:
        return "; ".join(offer.left_out) or "nothing to adapt"
    if kept != offer.reference:
        return "the largest gain that is sure" if judged > 1 else "faster than the stack's own loop"
    if judged:
        return "the stack's own loop; nothing compared with it is faster"
    return "the stack's own loop; nothing could be compared with it"
