"""Parallel map: several examples are computed at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, Literal

import attrs
from attrs import field

from tfopt_core import DataPlan, Diagnosis, Effect, RunContext, hookimpl
from tfopt_core.data import Map
from tfopt_data.rewrite import (
    Rewrite,
    effect,
    in_parts,
    input_matters,
    positive_or_auto,
    remember,
    stages_of,
)


def with_parallel_maps(
    plan: DataPlan, calls: int | Literal["auto"] = "auto", ordered: bool = True
) -> Rewrite:
    """The plan with every sequential map made parallel; others stay as the workload set them.

    The maps of the plans that a zip or concatenation puts together are made parallel too.

    :param calls: examples computed at once; "auto" is tf.data's AUTOTUNE.
    :param ordered: whether elements keep their order; in a zip they always do, or it would pair
        them otherwise.
    """
    done: list[str] = []

    def parallel(part: DataPlan, ordered: bool) -> DataPlan:
        keeps = part.source.origin == "zip"
        part = in_parts(part, lambda p: parallel(p, ordered or keeps))
        for index, stage in enumerate(part.stages):
            if isinstance(stage, Map) and stage.parallel is None:
                new = attrs.evolve(stage, parallel=calls, ordered=ordered)
                part = part.replace(index, new)
                done.append(new.describe())
        return part

    made = parallel(plan, ordered)
    if not done:
        there = any(stages_of(plan, Map))
        return Rewrite(
            plan, reason="every map is parallel already" if there else "there is no map stage"
        )
    return Rewrite(made, done="; ".join(done))


@attrs.frozen(kw_only=True, eq=False)
class ParallelMap:
    """Computes several examples of the input pipeline at once.

    What it does: sets num_parallel_calls on every map stage that is sequential.

    Why it helps: decoding and augmentation use all CPU cores instead of one.

    When it does not: for cheap functions, where handing out the calls costs more than they do;
    for Python functions (py_function), which take turns anyway; on few cores that train already.

    Mixes with: cache, whose first epoch it speeds up; prefetch. A random op with a seed of its own
    yields other values in parallel, of the same distribution.

    Reference: https://www.tensorflow.org/guide/data_performance#parallelizing_data_transformation
    """

    targets: ClassVar[tuple[str, ...]] = ("input",)
    role: ClassVar[str] = "optimization"
    model_change: ClassVar[str] = "none"
    requires: ClassVar[tuple[str, ...]] = ()
    conflicts: ClassVar[tuple[str, ...]] = ()
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    calls: int | Literal["auto"] = field(
        default="auto",
        validator=positive_or_auto,
        metadata={"help": "Examples computed at once; auto lets tf.data tune it (AUTOTUNE)."},
    )
    ordered: bool = field(
        default=True,
        metadata={"help": "Whether examples keep their order; false may be faster."},
    )

    def math(self) -> Literal["exact", "order"]:
        """The same elements; in their order unless `ordered` is false."""
        return "exact" if self.ordered else "order"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where a map takes its examples one by one, and more CPUs than one are there."""
        plan = diagnosis.plans.get("train")
        if plan is None or diagnosis.machine.cpu_count < 2 or not input_matters(diagnosis):
            return None
        return {} if any(stage.parallel is None for stage in stages_of(plan, Map)) else None

    @hookimpl(wrapper=True)
    def build_dataset(self, run: RunContext, split: str) -> Generator[None, DataPlan, DataPlan]:
        """Make the maps of every split parallel."""
        plan = yield
        return remember(run, split, with_parallel_maps(plan, self.calls, self.ordered))

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether a parallel map is in them."""
        return effect(run, "ParallelMap")
