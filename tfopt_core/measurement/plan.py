"""Plan a measurement: its groups, sides, order and seeds, and its decisions for a resume."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from tfopt_core.hooks.plugin_class import requiring, traits
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import LONGEST_WARM_SECONDS, PAIRS, WARM_SECONDS
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.contrasts import Contrast
from tfopt_core.statistics.fit_figures import LEAST_STARTS
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, seconds_in_words
from tfopt_core.statistics.results import Addition
from tfopt_core.statistics.runs import BASELINE, PLUS, RunResult
from tfopt_core.trials.request import Prepared, Request, ScheduledRun, Variant
from tfopt_core.workers.turns import longest_uninterrupted

# What a run takes beside its training, at least: its process, and validations behind the cut. A
# fork takes less. A run that is cut short also traces before its seconds begin.
BESIDE_SECONDS, BESIDE_OF_FORK, TRACING_SECONDS = 3.0, 1.0, 1.0
# With a budget each run trains for so long at least, and there are so many pairs at most.
LEAST_SECONDS, MOST_PAIRS = 2.0, 24
# The budget where none is given: more pairs and longer runs narrow the interval alike.
MEASURING_SECONDS = 85.0
# Whole trainings judge the quality where they take no longer, unless a budget says otherwise.
JUDGING_SECONDS = 1800.0
NOT_JUDGED = (
    "whether the model is as good is not judged: no replay certifies the stack, and whole "
    'trainings (seconds = "whole") {how_long}'
)


@attrs.frozen(kw_only=True)
class MeasurementState:
    """The decisions of a measurement so far: its plan, made before the first group, and what came
    to it.

    :param seed: the seed from which the order and the seeds of all groups are drawn.
    :param pairs: the number of groups.
    :param warm_seconds: how long each run trains after its start; None to its end.
    :param isolating: whether each plugin is left out in turn.
    :param group_seconds: about how long a group takes; None if unknown.
    :param note: what the user should know of the plan; "" for nothing.
    :param certificates: those of replays, by variant.
    :param added: the second contrast, not judged yet; None without one.
    :param one_after_other: why runs take no turns any more; "" while they do, or never did.
    :param resumed: how often the measurement was resumed.
    """

    seed: int
    pairs: int
    warm_seconds: float | None = None
    isolating: bool = False
    group_seconds: float | None = None
    note: str = ""
    certificates: Mapping[str, Certificate] = attrs.field(factory=dict)
    added: Addition | None = None
    one_after_other: str = ""
    resumed: int = 0


def plan_of(
    request: Request, prepared: Prepared, *, seed: int, certificates: Mapping[str, Certificate],
    added: Addition | None = None, forks: bool = False,
) -> MeasurementState:  # fmt: skip
    """Return the plan of a measurement.

    :param prepared: the dry build.
    :param forks: whether the runs are forks of one process.
    :param certificates, added, seed: as `MeasurementState` has them.
    """
    beside = (BESIDE_OF_FORK if forks else BESIDE_SECONDS) + prepared.seconds_to_fit
    run_seconds = partial(_run_seconds, prepared, beside=beside)
    sides = 2 if added is None else 3
    certified = [one.certified for one in certificates.values()].count(True) == sides - 1
    measure = request.recipe.measure
    budget = measure.budget_seconds
    left, least = MEASURING_SECONDS, measure.pairs or PAIRS
    if budget is not None:
        left, least = budget - prepared.seconds, MINIMUM_PAIRS
    warm: float | None = None
    note = ""
    if not prepared.is_whole and measure.seconds != "whole":
        warm = measure.seconds or _warm_seconds(prepared)
    extras = len(leave_one_out(request.plugins)[0])
    isolating = measure.attribution == "leave-one-out"
    judges = measure.seconds is None and measure.quality is not None
    if warm is not None and judges and not certified:
        # only whole trainings tell whether the model is as good
        each = run_seconds(None)
        takes = None if each is None else least * (sides + isolating * extras) * each
        if takes is not None and takes <= (JUDGING_SECONDS if budget is None else left):
            warm = None
        else:
            how_long = "may take any time"
            if takes is not None:
                how_long = f"would take about {seconds_in_words(takes)}"
            note = NOT_JUDGED.format(how_long=how_long)
    each = run_seconds(warm)
    if measure.attribution == "auto" and extras and each is not None:
        isolating = (measure.pairs or PAIRS) * (sides + extras) * each <= left
    sides += extras if isolating else 0
    pairs = least if budget is None and measure.pairs else _pairs_within(left, sides, each, least)
    if budget is not None and each is not None:
        if pairs * sides * each > left and warm is not None and measure.seconds is None:
            warm, each = LEAST_SECONDS, run_seconds(LEAST_SECONDS) or each
        takes = prepared.seconds + pairs * sides * each
        if takes > budget:
            over = f"this takes about {seconds_in_words(takes)}, more than the budget of "
            note = "; ".join(filter(None, (note, over + seconds_in_words(budget))))
    return MeasurementState(
        pairs=pairs, warm_seconds=warm, isolating=isolating,
        group_seconds=None if each is None else sides * each, note=note,
        seed=seed, certificates=certificates, added=added,
    )  # fmt: skip


def _warm_seconds(prepared: Prepared) -> float:
    """Return how long each run trains after its start, by default: longer where a total can be
    projected then, from the starts of enough epochs."""
    whole, epochs = prepared.training_seconds, prepared.epochs
    needed = 0.0 if whole is None else LEAST_STARTS * whole / epochs
    if needed > LONGEST_WARM_SECONDS:
        return WARM_SECONDS
    # half as many again: an epoch may take longer than it seemed
    return min(LONGEST_WARM_SECONDS, max(WARM_SECONDS, 1.5 * needed))


def _pairs_within(seconds: float, sides: int, each: float | None, least: int) -> int:
    """Return how many pairs are made in this time.

    :param each: the seconds of one of their runs, None if unknown.
    """
    if each is None:
        return PAIRS
    return max(least, min(MOST_PAIRS, int(seconds / (sides * each))))


def added_stack(prepared: Prepared, extended: Prepared) -> Addition:
    """Return the second contrast before it is judged.

    :param prepared, extended: the dry builds of the stack, and of that with the additions.
    """
    before, now = prepared.resolved, extended.resolved
    names = tuple(name for name in now if before.get(name) != now[name])
    return Addition(
        plugins=names, resolved=now, equivalence=extended.equivalence,
        variant=f"{PLUS}{' and '.join(names)}",
    )  # fmt: skip


def _run_seconds(prepared: Prepared, warm_seconds: float | None, *, beside: float) -> float | None:
    """Return about how long a run takes, with its process; None if unknown. It is assumed that the
    stack does not change that."""
    whole = prepared.training_seconds
    # several processes take many seconds to start, and their gain is unknown
    if prepared.several_processes:
        return None
    if warm_seconds is None or prepared.own_loop:
        return None if whole is None else whole + beside
    seconds = warm_seconds + TRACING_SECONDS
    if whole is None:
        return seconds + beside
    first, epochs = whole / max(1, prepared.epochs), prepared.epochs
    # a short first epoch comes before
    if epochs > 1 and first <= longest_uninterrupted(epochs, warm_seconds):
        seconds += first
    return min(whole, seconds) + beside


def seconds_of_fits(runs: Sequence[RunResult], warm_seconds: float | None) -> tuple[float, ...]:
    """Return how long each fit of a script trains after its start: its share of the seconds of a
    run, by its length in the first run, but no less than `LEAST_SECONDS`.

    :param runs: those so far.
    :param warm_seconds: the seconds of a run.
    :returns: none where the runs have one fit, train to its end, or have not shown their fits yet.
    """
    first = next((run.timed_fits for run in runs if run.ok), ())
    lengths = [fit.projected_seconds or fit.wall_seconds or 0.0 for fit in first]
    total = math.fsum(lengths)
    if warm_seconds is None or len(first) < 2 or not total:
        return ()
    least = min(LEAST_SECONDS, warm_seconds)
    return tuple(max(least, warm_seconds * length / total) for length in lengths)


def pairs_of_fits(
    request: Request, prepared: Prepared, state: MeasurementState, first: Sequence[RunResult],
    group_seconds: float,
) -> int:  # fmt: skip
    """Return how many pairs the time holds of a script with several fits: the dry build sees one,
    and plans too many. That is decided by seconds alone, never by what they show of a gain.

    :param first: the runs of the first group, which took `group_seconds`.
    """
    warm, measure = state.warm_seconds, request.recipe.measure
    shares = seconds_of_fits(first, warm)
    if warm is None or measure.pairs or not shares:
        return state.pairs
    fits = next(run.timed_fits for run in first if run.ok)
    saved = math.fsum(
        max(0.0, min(warm, fit.wall_seconds or 0.0) - share)
        for fit, share in zip(fits, shares, strict=True)
    )
    left, least = MEASURING_SECONDS - group_seconds, PAIRS
    if measure.budget_seconds is not None:
        left, least = measure.budget_seconds - prepared.seconds - group_seconds, MINIMUM_PAIRS
    fit_in = 1 + int(left / max(1.0, group_seconds - saved * len(first)))
    return min(state.pairs, max(least, fit_in))


def leave_one_out(plugins: Sequence[StackedPlugin]) -> tuple[list[Variant], list[Contrast]]:
    """Return the variants that leave out each plugin in turn, and their contrasts.

    A plugin is left out together with those that require it; if nothing is left, the baseline is
    that variant. A single plugin is judged by the comparison itself.
    """
    variants: dict[str, Variant] = {}
    contrasts, known = [], {one.name: traits(one.name, type(one.plugin)) for one in plugins}
    for stacked in plugins if len(plugins) > 1 else ():
        gone = requiring({stacked.name}, known)
        group = tuple(name for name in known if name in gone)
        rest = tuple(other for other in plugins if other.name not in group)
        name = f"without {' and '.join(group)}" if rest else BASELINE
        if rest:
            variants[name] = Variant(name, rest)
        contrasts.append(Contrast(stacked.name, group, name))
    return list(variants.values()), contrasts


def schedule(seed: int, round_: int, variants: Sequence[Variant]) -> list[ScheduledRun]:
    """Return one round: every variant once, all under the round's seed.

    With two variants each two rounds are ABBA or BAAB, so that a linear drift of the machine's
    speed biases neither. Which of the two is random, since a periodic load could otherwise keep
    step with the order. More variants are put in random order.

    :param seed: that of all rounds, which is stored with the results.
    """
    of_round = random.Random(f"{seed} seed of round {round_}").randrange(1, 2**31)
    order = list(variants)
    if len(order) == 2:
        first = random.Random(f"{seed} order of rounds {round_ // 2}").randrange(2)
        if (first + round_) % 2:
            order.reverse()
    else:
        random.Random(f"{seed} order of round {round_}").shuffle(order)
    return [ScheduledRun(round_, place, variant, of_round) for place, variant in enumerate(order)]
