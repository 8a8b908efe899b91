"""Plan a measurement before its first group: how many groups, how long, and which sides."""

from __future__ import annotations

import math

import attrs

from tfopt_core.measurement.schedule import leave_one_out
from tfopt_core.recipe.model import PAIRS, WARM_SECONDS
from tfopt_core.records.dry_build import Prepared
from tfopt_core.statistics.intervals import MINIMUM_PAIRS
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.trials.request import Request

# What a run takes beside its training, at least: its process, and validations behind the cut.
BESIDE_SECONDS = 3.0
# With a budget each run trains for so long at least, and there are so many pairs at most.
LEAST_SECONDS, MOST_PAIRS = 2.0, 12
# Plugins are left out in turn where that takes no longer, unless a budget says otherwise.
ISOLATING_SECONDS = 150.0


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


def plan_of(request: Request, prepared: Prepared, *, sides: int = 2) -> Plan:
    """Return the plan of a measurement.

    A budget chooses what the recipe leaves open: the seconds, and then the number of pairs.

    :param prepared: the dry build.
    :param sides: those of a group, without those that leave a plugin out.
    """
    measure = request.recipe.measure
    whole = measure.seconds == "whole" or bool(prepared.why_whole)
    seconds = WARM_SECONDS if measure.seconds == "whole" else measure.seconds
    warm = None if whole else seconds
    note = ""
    pairs, budget = measure.pairs, measure.budget_seconds
    extras = len(leave_one_out(request.plugins)[0])
    isolating = measure.attribution == "leave-one-out"
    if measure.attribution == "auto" and extras:
        each = _run_seconds(prepared, warm)
        longest = ISOLATING_SECONDS if budget is None else budget - prepared.seconds
        isolating = each is not None and pairs * (sides + extras) * each <= longest
    sides += extras if isolating else 0
    if budget is not None:
        left = budget - prepared.seconds
        if warm is not None and seconds == WARM_SECONDS:
            beside = (_run_seconds(prepared, 0.0) or 0.0) * sides * PAIRS
            warm = max(LEAST_SECONDS, min(WARM_SECONDS, (left - beside) / (sides * PAIRS)))
        each = _run_seconds(prepared, warm)
        if each is not None and pairs == PAIRS:
            pairs = max(MINIMUM_PAIRS, min(MOST_PAIRS, int(left / (sides * each))))
        if each is not None and pairs * sides * each > left:
            takes = seconds_in_words(prepared.seconds + pairs * sides * each)
            note = f"this takes about {takes}, more than the budget of {seconds_in_words(budget)}"
    each = _run_seconds(prepared, warm)
    return Plan(
        pairs=pairs, warm_seconds=warm, isolating=isolating,
        group_seconds=None if each is None else sides * each, note=note,
    )  # fmt: skip


def _run_seconds(prepared: Prepared, warm_seconds: float | None) -> float | None:
    """Return about how long a run takes, with its process; None if unknown. It is assumed that the
    stack does not change that."""
    whole = prepared.training_seconds
    # several processes take many seconds to start, and their gain is unknown
    if prepared.several_processes:
        return None
    if warm_seconds is None or prepared.own_loop:
        return None if whole is None else whole + BESIDE_SECONDS
    epoch = math.inf if whole is None else whole / max(1, prepared.epochs)
    # a short first epoch comes before
    cut = warm_seconds + (epoch if epoch <= WARM_SECONDS else 0.0)
    return min(math.inf if whole is None else whole, cut) + BESIDE_SECONDS
