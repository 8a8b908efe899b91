"""What a plugin of this folder made of a data plan, and how it reports that at the run's end."""

from __future__ import annotations

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
    rewrites: dict[str, Rewrite] = run.state.get("rewrites", {})
    done, reasons = [], []
    for split, rewrite in rewrites.items():
        if not rewrite.done:
            reasons.append(f"{split}: {rewrite.reason}")
        elif dissect.has_stage(run.datasets[split], stage):
            done.append(f"{split}: {rewrite.done}")
        else:
            reasons.append(f'{split}: the lowered data hold no stage "{stage}"')
    if done:
        return Effect.applied_as("; ".join([*done, *reasons]))
    return Effect.not_applied("; ".join(reasons) or "no data set was built")
