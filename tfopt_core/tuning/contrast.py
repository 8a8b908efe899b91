"""Whether the plugin of a trial goes into the stack, by the ratios of a few pairs.

These decisions steer the search, and nothing else: the largest of many noisy ratios is larger than
the truth, so no gain is printed from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs

from tfopt_core.statistics.intervals import speedup_interval, t_interval
from tfopt_core.tuning.results import Action, TrialOutcome

# A plugin that gains less in a few pairs is not worth the fresh pairs that would have to show it.
LEAST_RATIO = 1.03
# One that is in already stays for less, since only further pairs can show that it earns its place.
LEAST_EARNED = 1.01
# A plugin that is this much worse by at least two pairs, or by the first one, is not tried further.
# Processes differ by 2 to 3%, but by more where the starts of short epochs sometimes wait.
WORSE_RATIO, WORSE_AT_ONCE_RATIO = 1 / 1.15, 1 / 1.5
# Two pairs are enough for a gain of which each shows this much.
PLAIN_RATIO = 1.15
# Pairs that any other decision takes at least; from which on an interval decides; and at most, of
# what seems to gain and is not settled before.
LEAST_PAIRS, INTERVAL_PAIRS, MOST_PAIRS = 2, 4, 6
# Of the printed intervals, and of the decisions by them: 80%, since what goes in by mistake is
# taken out where it is not missed, and the fresh pairs have the last word.
LEVEL = 0.2


@attrs.frozen
class Decision:
    """An outcome with its reason, or that more pairs are needed (`outcome` is None)."""

    outcome: TrialOutcome | None
    reason: str = ""


@attrs.frozen
class Contrasted:
    """The ratios of the pairs so far as one figure, with its interval if there are two pairs."""

    ratio: float
    low: float | None
    high: float | None
    confidence: float | None
    pairs: int


def contrasted(log_ratios: Sequence[float]) -> Contrasted:
    """Return the mean ratio of the pairs with its interval."""
    if len(log_ratios) < 2:
        return Contrasted(math.exp(log_ratios[0]), None, None, None, 1)
    interval = t_interval(log_ratios, LEVEL)
    return Contrasted(*speedup_interval(interval), interval.confidence, len(log_ratios))


def decided(action: Action, log_ratios: Sequence[float]) -> Decision:
    """Return the decision of a trial on these pairs."""
    return decide(log_ratios) if action == "add" else decide_drop(log_ratios)


def decide(log_ratios: Sequence[float]) -> Decision:
    """Return whether the plugin goes in, by the pairs so far.

    :param log_ratios: ln(figure without the plugin / with it) of each pair, at least one.
    """
    pairs, found = len(log_ratios), contrasted(log_ratios)
    if found.ratio <= (WORSE_AT_ONCE_RATIO if pairs < LEAST_PAIRS else WORSE_RATIO):
        return Decision(TrialOutcome.WORSE, f"{found.ratio:.2f}x with it")
    if pairs < LEAST_PAIRS:
        return Decision(None)
    if found.ratio < LEAST_RATIO:
        # two noisy pairs that show no loss may still allow a plain gain
        may_gain = pairs == LEAST_PAIRS and found.ratio >= 1 and (found.high or 0.0) >= PLAIN_RATIO
        # two more pairs, since the sides of a pair change places with the next one
        if pairs == LEAST_PAIRS + 1 or may_gain:
            return Decision(None)
        small = f"{found.ratio:.3f}x with it, and less than {LEAST_RATIO:.2f}x is not pursued"
        return Decision(TrialOutcome.NO_GAIN, small)
    if min(log_ratios) >= math.log(PLAIN_RATIO) or _shows_gain(log_ratios):
        return Decision(TrialOutcome.IN, f"{found.ratio:.2f}x with it")
    if pairs < MOST_PAIRS:
        return Decision(None)
    return Decision(TrialOutcome.NO_GAIN, f"{found.ratio:.2f}x with it, within the noise")


def decide_drop(log_ratios: Sequence[float]) -> Decision:
    """Return whether a plugin of the winner stays, by the pairs so far.

    :param log_ratios: ln(figure without the plugin / with it) of each pair, at least one.
    """
    pairs, found = len(log_ratios), contrasted(log_ratios)
    if pairs < LEAST_PAIRS:
        return Decision(None)
    earns, may_stay = f"{found.ratio:.2f}x with it", found.ratio >= LEAST_EARNED
    plainly = min(log_ratios) >= math.log(PLAIN_RATIO)
    if plainly or (may_stay and _shows_gain(log_ratios)):
        return Decision(TrialOutcome.STAYS, earns)
    if found.ratio >= 1 and (pairs < INTERVAL_PAIRS or (pairs < MOST_PAIRS and may_stay)):
        return Decision(None)
    return Decision(TrialOutcome.DROPPED, f"{earns}, which does not earn its place")


def _shows_gain(log_ratios: Sequence[float]) -> bool:
    """Return whether the interval of these pairs lies above 1."""
    low = contrasted(log_ratios).low
    return len(log_ratios) >= INTERVAL_PAIRS and low is not None and low > 1


# Called after each pair of a trial with the figure of all so far.
OnPair = Callable[[Contrasted], None]
