"""Parallel map: several examples are computed at once."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import Map, Stage, random_ops
from tfopt_core.plugins import DataPlan, Diagnosis, RunContext, Split, plugin, setting
from tfopt_core.toolkit import number_or
from tfopt_data.rewrite import (
    Rewrite,
    RewritingPlugin,
    chosen_otherwise,
    costly_input,
    in_parts,
    stages_of,
    with_split_maps,
)


def with_parallel_maps(
    plan: DataPlan,
    calls: int | Literal["auto"] = "auto",
    ordered: bool = True,
    random_maps: bool = False,
) -> Rewrite:
    """The plan with every sequential map made parallel; others stay as the workload set them.

    The maps of the plans that a zip or concatenation puts together are made parallel too.

    :param calls: examples computed at once; "auto" is tf.data's AUTOTUNE.
    :param ordered: whether elements keep their order; in a zip they always do, or it would pair
        them otherwise. Without it, maps that a take or the like follows stay as they are.
    :param random_maps: whether maps that may yield something else each time are made parallel
        too: what they draw then goes to other examples.
    """
    done: list[str] = []
    reasons: list[str] = []

    def parallel(part: DataPlan, ordered: bool, behind: tuple[Stage, ...]) -> DataPlan:
        keeps = part.source.origin == "zip"
        part = in_parts(part, lambda p: parallel(p, ordered or keeps, (*part.stages[1:], *behind)))
        if not random_maps:
            part = with_split_maps(part)
        for index, stage in enumerate(part.stages):
            if not isinstance(stage, Map) or stage.parallel is not None:
                continue
            chosen = "" if ordered else chosen_otherwise((*part.stages[index + 1 :], *behind))
            if chosen:
                reasons.append(f"{stage.describe()}: {chosen}; set ordered = true")
                continue
            ops = () if random_maps else random_ops(part, index)
            if ops:
                reasons.append(
                    f"{stage.describe()}: at once, its calls would draw in another order "
                    f"(op {', '.join(ops)}); set random_maps = true"
                )
                continue
            new = attrs.evolve(stage, parallel=calls, ordered=ordered)
            part = part.replace(index, new)
            done.append(new.describe())
        return part

    made = parallel(plan, ordered, ())
    if not done:
        there = any(stages_of(plan, Map))
        said = "every map is parallel already" if there else "there is no map stage"
        return Rewrite(plan, reason="; ".join(reasons) or said)
    return Rewrite(made, done="; ".join([*done, *(f"left {reason}" for reason in reasons)]))


@plugin
class ParallelMap(RewritingPlugin):
    """Computes several examples of the input pipeline at once.

    What it does: sets num_parallel_calls on every map stage that is sequential. Of a map that draws
    random numbers, what it computes before it draws is made parallel, in a map of its own, and the
    rest is left alone unless random_maps is set.

    Why it helps: decoding and augmentation use all CPU cores instead of one.

    When it does not: for cheap functions, where handing out the calls costs more than they do;
    for Python functions (py_function), which take turns anyway; on few cores that train already.

    Mixes with: cache, whose first epoch it speeds up; prefetch. With random_maps, random ops
    give other values to other examples, of the same distribution: the same training by chance only.

    Reference: https://www.tensorflow.org/guide/data_performance#parallelizing_data_transformation
    """

    targets = ("input",)
    _sign = "ParallelMap"

    calls: int | Literal["auto"] = number_or(
        "auto", "Examples computed at once; auto lets tf.data tune it (AUTOTUNE)."
    )
    ordered: bool = setting(
        default=True,
        help="Whether examples keep their order; false may be faster, and leaves maps alone "
        "whose order decides what a take or skip behind them chooses.",
    )

    random_maps: bool = setting(
        default=False,
        help="Whether maps that draw random numbers are made parallel too; examples then get "
        "other draws.",
    )

    def equivalence(self) -> Literal["exact", "order", "rounding"]:
        """The same elements; in their order unless `ordered` is false. Random maps make other
        draws of the same distribution, which only statistics can judge."""
        if self.random_maps:
            return "rounding"
        return "exact" if self.ordered else "order"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where a map takes its examples one by one, and more CPUs than one are there."""
        plan = costly_input(diagnosis)
        if plan is None or diagnosis.machine.cpu_count < 2:
            return None
        return {} if any(stage.parallel is None for stage in stages_of(plan, Map)) else None

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        return with_parallel_maps(plan, self.calls, self.ordered, self.random_maps)

    def by_hand(self) -> str:
        """The same in plain code."""
        calls = "tf.data.AUTOTUNE" if self.calls == "auto" else self.calls
        return (
            f"train = train.map(function, num_parallel_calls={calls}, deterministic={self.ordered})"
        )
