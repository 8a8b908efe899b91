"""Prefetch: the next batches are made while a step computes."""

from __future__ import annotations

from typing import Any, Literal

from tfopt_core.data import Options, stage_names
from tfopt_core.data import Prefetch as PrefetchStage
from tfopt_core.plugins import DataPlan, Diagnosis, RunContext, Split, plugin
from tfopt_core.toolkit import number_or
from tfopt_data.prefix import changed_by_reading_ahead
from tfopt_data.rewrite import Rewrite, RewritingPlugin, costly_input


def with_prefetch(plan: DataPlan, buffer_size: int | Literal["auto"] = "auto") -> Rewrite:
    """The plan with a prefetch at its end, unless there is one.

    :param buffer_size: batches to hold ready; "auto" is tf.data's AUTOTUNE.
    """
    reason = already_prefetched(plan)
    if reason:
        return Rewrite(plan, reason=reason)
    if changed := changed_by_reading_ahead(plan):
        return Rewrite(plan, reason=changed)
    stage = PrefetchStage(buffer_size=buffer_size)
    return Rewrite(plan.append(stage), done=stage.describe())


def already_prefetched(plan: DataPlan) -> str:
    """Why the plan needs no prefetch at its end, "" if it does."""
    source = plan.source
    if source.origin == "pydataset":
        return "a PyDataset is prefetched by Keras' own workers"
    for stage in plan.stages:
        if isinstance(stage, PrefetchStage) and not stage.inside:
            return f"the workload has its own ({stage.describe()})"
    # options stand at no place of their own
    last = [stage for stage in plan.stages if not isinstance(stage, Options)][-1]
    if isinstance(last, PrefetchStage):
        return f"the workload's data set ends with a prefetch ({last.describe()})"
    opaque = last is source and source.origin == "dataset"
    if opaque and "Prefetch" in next(stage_names(source.value)):
        return "the workload's data set ends with a prefetch"
    return ""


@plugin
class Prefetch(RewritingPlugin):
    """Makes the next batches while the current step computes.

    What it does: ends the input pipeline with a tf.data prefetch.

    Why it helps: input and training overlap, so a step takes the longer of the two, not their sum.

    When it does not: for data that are prefetched already; on a CPU that is busy with training
    anyway; and where tf.data's own optimizer, which adds a small prefetch, has done it. None is
    added to data that are repeated behind a shuffle, or that draw from a generator and are repeated
    or read in given steps: reading further ahead would change what is yielded later.

    Mixes with: cache and parallel-map, which make the input itself cheaper; it stands after both.

    Reference: https://www.tensorflow.org/guide/data_performance#prefetching
    """

    targets = ("input",)
    _sign = "Prefetch"
    after = ("cache", "parallel-map")
    equivalence = "exact"  # the elements and their order are the same

    buffer_size: int | Literal["auto"] = number_or(
        "auto", "Batches that are held ready; auto lets tf.data tune it (AUTOTUNE)."
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where a step waits for its input, and nothing makes it ahead."""
        plan = costly_input(diagnosis)
        return None if plan is None or already_prefetched(plan) else {}

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        return with_prefetch(plan, self.buffer_size)

    def by_hand(self) -> str:
        """The same in plain code."""
        size = "tf.data.AUTOTUNE" if self.buffer_size == "auto" else self.buffer_size
        return f"train = train.prefetch({size})  # last, and of the validation data too"
