"""Report how evenly the loss falls and how many epochs the target takes.

Like the verdict these are paired contrasts with intervals, but they judge nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfopt_core.records.data_loss import NAME, differs_from_loss
from tfopt_core.records.results import RunResult
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, t_interval
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import Pair, pairs_of
from tfopt_core.statistics.wording import confidence_in_words

# The first epoch is left out, and a spread takes at least two more.
MINIMUM_EPOCHS = 3


def observations(runs: Sequence[RunResult], judgement: Judgement) -> tuple[str, ...]:
    """Return the sentences that these runs support; empty if there are too few runs."""
    pairs = pairs_of(runs)
    if len(pairs) < MINIMUM_PAIRS:
        return ()
    sentences = [_spread(pairs, judgement), _epochs(pairs, judgement)]
    return tuple(sentence for sentence in sentences if sentence is not None)


def spread_over_epochs(run: RunResult) -> float | None:
    """Return the standard deviation of the validation data loss over the epochs but the first. None
    if there are too few epochs, or the loss does not vary."""
    values = run.fit.history.get(NAME, ())  # a falling penalty would look like a falling loss
    if len(values) < MINIMUM_EPOCHS:
        return None
    later = values[1:]
    mean = math.fsum(later) / len(later)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in later) / (len(later) - 1))
    return spread or None


def _spread(pairs: Sequence[Pair], judgement: Judgement) -> str | None:
    """Return a sentence on the spread, if the stack adds penalties to the loss or removes them."""
    if not any(
        differs_from_loss(run.fit.metrics) for pair in pairs for run in (pair.without, pair.with_)
    ):
        return None
    spreads = [(spread_over_epochs(p.without), spread_over_epochs(p.with_)) for p in pairs]
    ratios = [math.log(after / before) for before, after in spreads if before and after]
    if len(ratios) < MINIMUM_PAIRS:
        return None
    interval = t_interval(ratios)
    ratio, low, high = (math.exp(x) for x in (interval.mean, interval.low, interval.high))
    if high < 1:
        verb = "spreads less"
    elif low > 1:
        verb = "spreads more"
    else:
        verb = "spreads neither surely less nor surely more"
    return (
        f"{NAME} {verb} over the epochs after the first: {ratio:.2f} times the baseline's "
        f"standard deviation ({confidence_in_words(interval)} interval {low:.2f} to {high:.2f}, "
        f"{interval.count} pairs)"
    )


def _epochs(pairs: Sequence[Pair], judgement: Judgement) -> str | None:
    if judgement.target is None:
        return None
    counts = [(p.without.fit.epochs_to_target, p.with_.fit.epochs_to_target) for p in pairs]
    both = [(before, after) for before, after in counts if before and after]
    if len(both) < len(pairs):
        missed = [
            f"{sum(epochs is None for epochs in side)} of {len(pairs)} {name} runs"
            for name, side in zip(("baseline", "optimized"), zip(*counts, strict=True), strict=True)
            if None in side
        ]
        return f"the target was never reached in {' and '.join(missed)}"
    differences = [float(after - before) for before, after in both]
    interval = t_interval(differences)
    if interval.high < 0:
        verb = "reached in fewer epochs"
    elif interval.low > 0:
        verb = "reached in more epochs"
    elif not any(differences):
        return f"the target is reached in the same number of epochs in all {len(both)} pairs"
    else:
        verb = "reached in neither surely fewer nor surely more epochs"
    baseline = math.fsum(before for before, _ in both) / len(both)
    return (
        f"the target is {verb}: {baseline:.1f} -> {baseline + interval.mean:.1f} on average "
        f"(change {interval.low:+.1f} to {interval.high:+.1f}, {interval.count} pairs)"
    )
