"""Vectorize map: a function of one example is applied to whole batches."""

from __future__ import annotations

from typing import Any, Literal

from tfopt_core.data import (
    Batch,
    MapBatches,
    MapExamples,
    function_name,
    random_ops,
    stage_names,
    still,
)
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    RunContext,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_data.rewrite import Rewrite, RewritingPlugin, costly_input, effect_if, seen_through
from tfopt_data.vectorizing import vectorized


def with_vectorized_maps(plan: DataPlan, rounding: bool = True) -> Rewrite:
    """The plan with its batches made before the maps that stood directly before them.

    Beginning with the last one, each map is tried on whole batches of a sample and compared with
    what it made of the examples; the first that cannot be vectorized ends it.

    :param rounding: whether floating-point elements may differ by rounding.
    """
    found = _maps_before_batch(plan)
    if isinstance(found, str):
        return Rewrite(plan, reason=found)
    batch, batching, maps = found
    done: list[str] = []
    reason = ""
    for place in reversed(maps):
        stage = plan.stages[place]
        assert isinstance(stage, MapExamples)
        ops = random_ops(plan, place)
        if ops:
            reason = f'"{function_name(stage.function)}" draws at random (op {", ".join(ops)})'
            break
        outcome = vectorized(still(plan.upto(place)), stage.function, batching, rounding)
        if isinstance(outcome, str):
            reason = f'"{function_name(stage.function)}" {outcome}'
            break
        function, how = outcome
        moved = MapBatches(
            function=function, deterministic=True, parallel=stage.parallel, ordered=stage.ordered
        )
        before, between = plan.stages[:place], plan.stages[place + 1 : batch]
        behind = (batching, moved, *plan.stages[batch + 1 :])
        plan = plan.with_stages((*before, *between, *behind))
        batch -= 1
        done.append(f"{function_name(stage.function)} {how}")
    if not done:
        return Rewrite(plan, reason=reason)
    said = f"; not vectorized: {reason}" if reason else ""
    return Rewrite(plan, done=f"on batches: {', '.join(done)}{said}")


def _maps_before_batch(plan: DataPlan) -> tuple[int, Batch, list[int]] | str:
    """Return where the batch stands, it, and where the maps directly before it stand; or why there
    are none."""
    batch = plan.find(Batch)
    if batch is None:
        return "nothing is put into batches where tfopt sees it"
    stage = plan.stages[batch]
    if type(stage) is not Batch:
        return "batches of examples of different shapes stay as they are"
    maps: list[int] = []
    for place in range(batch - 1, 0, -1):
        before = plan.stages[place]
        if isinstance(before, MapExamples):
            maps.insert(0, place)
        elif not before.neutral:
            break
    if not maps:
        other = plan.stages[batch - 1].describe()
        return f'there is no map directly before the batch, but "{other}"'
    return batch, stage, maps


@plugin
class VectorizeMap(RewritingPlugin):
    """Applies the function of a map to whole batches instead of single examples.

    What it does: makes the batches before the maps that stand directly before them. A function
    that works on a batch as it is, by broadcasting, is used so; else tf.vectorized_map makes one.
    Before the run both ways are compared on a sample of examples, and given up if one differs.

    Why it helps: calling a function costs tens of microseconds, which for cheap functions
    (scaling, casting, one-hot) is most of the time; a batch pays it once.

    When it does not: for functions that take long for one example (decoding pictures, which cannot
    be vectorized at all); for random ones, which are left alone; behind a cache.

    Mixes with: cache, which moves deterministic maps before the shuffle, where they cannot be
    vectorized: put vectorize-map behind it for the maps that are left. parallel-map.

    Reference: https://www.tensorflow.org/guide/data_performance#vectorizing_mapping
    """

    targets = ("input",)

    rounding: bool = setting(
        default=True,
        help="Whether floating-point elements may differ by rounding; false asks for the same "
        "bits, and leaves more maps alone.",
    )

    def equivalence(self) -> Literal["exact", "rounding"]:
        """The same elements, up to rounding if `rounding` allows it."""
        return "rounding" if self.rounding else "exact"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where examples are computed one by one just before they are put into batches."""
        plan = costly_input(diagnosis)
        if plan is None:
            return None
        return None if isinstance(_maps_before_batch(plan), str) else {}

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        return with_vectorized_maps(plan, self.rounding)

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether a map stands behind the batch."""
        return effect_if(self, run, seen_through(_maps_batches), "no map behind the batch")

    def by_hand(self) -> str:
        """The same in plain code."""
        return (
            "# where the function computes the same of a whole batch\n"
            "train = train.batch(batch_size).map(function)"
        )


def _maps_batches(dataset: Any) -> bool:
    names = list(stage_names(dataset))  # the last stage first
    maps = [place for place, name in enumerate(names) if "Map" in name and "Flat" not in name]
    batches = [place for place, name in enumerate(names) if "Batch" in name]
    return bool(maps and batches) and min(maps) < max(batches)
