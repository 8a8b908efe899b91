"""What a plugin of this folder made of a data plan, and how it reports that at the run's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core import DataPlan, Effect, RunContext
from tfopt_core.data import dissect


@attrs.frozen(eq=False)
class Rewrite:
    """A plan after a plugin looked at it: `done` says what changed, `reason` why nothing did."""

    plan: DataPlan
    done: str = ""
    reason: str = ""


def remember(run: RunContext, split: str, rewrite: Rewrite) -> DataPlan:
    """Keep what was done for `effect`; returns the plan."""
    run.state.setdefault("rewrites", {})[split] = rewrite
    return rewrite.plan


def effect(run: RunContext, stage: str) -> Effect:
    """Which splits were rewritten, read back from the lowered data.

    :param stage: a word in the class name of the tf.data stage that must be there.
    """
    return effect_if(run, lambda data: dissect.has_stage(data, stage), f'no stage "{stage}"')


def effect_if(run: RunContext, is_there: Callable[[Any], bool], missing: str) -> Effect:
    """Which splits were rewritten, as far as the lowered data confirm it.

    :param is_there: whether a lowered data set has what the rewrite gave it.
    :param missing: what the data hold instead, for the reason: `no stage "Cache"`.
    """
    rewrites: dict[str, Rewrite] = run.state.get("rewrites", {})
    done, reasons = [], []
    for split, rewrite in rewrites.items():
        if not rewrite.done:
            reasons.append(f"{split}: {rewrite.reason}")
        elif is_there(run.datasets[split]):
            done.append(f"{split}: {rewrite.done}")
        else:
            reasons.append(f"{split}: the lowered data hold {missing}")
    if done:
        return Effect.applied_as("; ".join([*done, *reasons]))
    return Effect.not_applied("; ".join(reasons) or "no data set was built")


def positive_or_auto(_: Any, attribute: Any, value: Any) -> None:
    """An attrs validator: a whole number of at least 1, or "auto"."""
    if value != "auto" and value < 1:
        raise ValueError(f'{attribute.name} must be at least 1 or "auto", got {value}')
