"""Choose which exact loops a training compares, in what order, and which one it keeps."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import attrs

from tfopt_core.records.in_run import InRun, InRunVerdict
from tfopt_core.training.loops.exact_loops import Loop, Offer

# A call costs up to 5 ms with its data, so a call of this length gains next to nothing from more
# steps.
LONG_CALL_SECONDS = 0.1
# The most that several steps a call save of each step, on a busy machine.
DISPATCH_SECONDS = 0.002
# With longer steps XLA is first tried on a few steps a call, since it may be 15 times slower.
LONG_STEP_SECONDS = 0.005


@attrs.frozen
class LoopTrial:
    """A loop to compare with the reference; with `screen` only by the loop's first block."""

    loop: Loop
    screen: bool = False


def candidates(
    offer: Offer, step_seconds: float, *, steps_first: bool = False
) -> Generator[LoopTrial, InRun, None]:
    """Yield the loops to compare with the reference, given the results of earlier ones.

    The opposite setting of XLA comes first, since it matters most; if steps are long, a block of
    few steps a call must show first that it is not far behind. Then come more steps a call without
    it, unless XLA has gained more than these can: the fewest that make a long call.

    :param step_seconds: the seconds of a step of the reference.
    :param steps_first: compare more steps a call before XLA, whose compilation may use up the time.
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
    """Return the fewest offered steps that make a long call, else the most; 0 for none."""
    if offer.reference.steps * step_seconds >= LONG_CALL_SECONDS:
        return 0
    long = (size for size in offer.steps if size * step_seconds >= LONG_CALL_SECONDS)
    return next(long, max(offer.steps, default=0))


def fastest(results: Mapping[Loop, InRun]) -> Loop | None:
    """Return the loop with the largest lower bound of its gain; None if none is faster."""
    # not by the means: a loop that was timed in a noisy moment could win
    sure = {
        loop: r.low for loop, r in results.items() if r.verdict is InRunVerdict.FASTER and r.low
    }
    return max(sure, key=lambda loop: sure[loop], default=None)


def why_kept(offer: Offer, kept: Loop, results: Sequence[InRun]) -> str:
    """Return a phrase on why this loop is kept."""
    judged = sum(result.speedup is not None for result in results)
    if offer.empty:
        return "; ".join(offer.left_out) or "nothing to adapt"
    if kept != offer.reference:
        return "the largest gain that is sure" if judged > 1 else "faster than the stack's own loop"
    if judged:
        return "the stack's own loop; nothing compared with it is faster"
    return "the stack's own loop; nothing could be compared with it"
