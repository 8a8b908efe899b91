"""Plan a measurement before its first group: how many groups, how long, and which sides."""

from __future__ import annotations

import attrs

from tfopt_core.measurement.schedule import leave_one_out
from tfopt_core.recipe.model import PAIRS, WARM_SECONDS
from tfopt_core.records.dry_build import Prepared
from tfopt_core.statistics.intervals import MINIMUM_PAIRS, seconds_in_words
from tfopt_core.trials.request import Request
from tfopt_core.trials.turns import longest_uninterrupted

# What a run takes beside its training, at least: its process, and validations behind the cut.
BESIDE_SECONDS = 3.0
# With a budget each run trains for so long at least, and there are so many pairs at most.
LEAST_SECONDS, MOST_PAIRS = 2.0, 12
# Plugins are left out in turn where that takes no longer, unless a budget says otherwise.
ISOLATING_SECONDS = 150.0
# Whole trainings judge the quality where they take no longer, unless a budget says otherwise.
JUDGING_SECONDS = 1800.0
NOT_JUDGED = (
    "whether the model is as good is not judged: no replay certifies the stack, and whole "
    'trainings (seconds = "whole") {how_long}'
)


@attrs.frozen(kw_only=True)
class Plan:
    """What is measured, decided before the first group.

    :param pairs: the number of groups.
    :param warm_seconds: how long each run trains behind its start; None to its end.
    :param isolating: whether each plugin is left out in turn.
    :param group_seconds: about how long a group takes; None if unknown.
    :param note: what the user should know of the choice; "" for nothing.
    """

    pairs: int
    warm_seconds: float | None
    isolating: bool
    group_seconds: float | None
    note: str = ""


def plan_of(
    request: Request, prepared: Prepared, *, sides: int = 2, certified: bool = False
) -> Plan:
    """Return the plan of a measurement.

    :param prepared: the dry build.
    :param sides: those of a group, without those that leave a plugin out.
    :param certified: whether a replay has shown that the stack trains the same.
    """
    measure = request.recipe.measure
    left = None
    if measure.budget_seconds is not None:
        left = measure.budget_seconds - prepared.seconds
    warm: float | None = None
    note = ""
    if not prepared.why_whole and measure.seconds != "whole":
        warm = measure.seconds or WARM_SECONDS
    extras = len(leave_one_out(request.plugins)[0])
    isolating = measure.attribution == "leave-one-out"
    judges = measure.seconds is None and measure.quality is not None
    if warm is not None and judges and not certified:
        # only whole trainings tell whether the model is as good
        pairs, longest = (measure.pairs, JUDGING_SECONDS) if left is None else (MINIMUM_PAIRS, left)
        each = _run_seconds(prepared, None)
        takes = None if each is None else pairs * (sides + isolating * extras) * each
        if takes is not None and takes <= longest:
            warm = None
        else:
            how_long = "may take any time"
            if takes is not None:
                how_long = f"would take about {seconds_in_words(takes)}"
            note = NOT_JUDGED.format(how_long=how_long)
    each = _run_seconds(prepared, warm)
    if measure.attribution == "auto" and extras and each is not None:
        longest = ISOLATING_SECONDS if left is None else left
        isolating = measure.pairs * (sides + extras) * each <= longest
    sides += extras if isolating else 0
    plan = Plan(
        pairs=measure.pairs, warm_seconds=warm, isolating=isolating,
        group_seconds=None if each is None else sides * each, note=note,
    )  # fmt: skip
    return plan if left is None else _within(left, plan, prepared, sides)


def _within(left: float, plan: Plan, prepared: Prepared, sides: int) -> Plan:
    """Return the plan that fits into the seconds that are left of a budget.

    It chooses what the recipe leaves open: the seconds of a run, and then the number of pairs.
    """
    warm = plan.warm_seconds
    if warm == WARM_SECONDS:
        least = _run_seconds(prepared, LEAST_SECONDS) or LEAST_SECONDS
        warm = min(WARM_SECONDS, LEAST_SECONDS + max(0.0, left / (sides * PAIRS) - least))
    each = _run_seconds(prepared, warm)
    if each is None:
        return attrs.evolve(plan, warm_seconds=warm)
    pairs = max(MINIMUM_PAIRS, min(MOST_PAIRS, int(left / (sides * each))))
    takes, budget = pairs * sides * each, left + prepared.seconds
    note = plan.note
    if takes > left:
        over = (
            f"this takes about {seconds_in_words(prepared.seconds + takes)}, more than the budget "
            f"of {seconds_in_words(budget)}"
        )
        note = "; ".join(filter(None, (note, over)))
    return attrs.evolve(plan, pairs=pairs, warm_seconds=warm, group_seconds=sides * each, note=note)


def _run_seconds(prepared: Prepared, warm_seconds: float | None) -> float | None:
    """Return about how long a run takes, with its process; None if unknown. It is assumed that the
    stack does not change that."""
    whole = prepared.training_seconds
    # several processes take many seconds to start, and their gain is unknown
    if prepared.several_processes:
        return None
    if warm_seconds is None or prepared.own_loop:
        return None if whole is None else whole + BESIDE_SECONDS
    if whole is None:
        return warm_seconds + BESIDE_SECONDS
    first, epochs = whole / max(1, prepared.epochs), prepared.epochs
    # a short first epoch comes before
    if epochs > 1 and first <= longest_uninterrupted(epochs, warm_seconds):
        warm_seconds += first
    return min(whole, warm_seconds) + BESIDE_SECONDS
