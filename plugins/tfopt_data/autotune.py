"""Autotune: how tf.data tunes an input pipeline while it runs, or that it does not."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import Autotune as AutotuneStage
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Probe,
    RunContext,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import number_or
from tfopt_data.prefix import changed_by_reading_ahead, left_unfilled
from tfopt_data.rewrite import Rewrite, RewritingPlugin, effect_if, input_matters, stages_of

# tf.data's own share of the memory that is free, of which it knows only the machine's.
RAM_SHARE = 0.5
# Of 48 iterators each that lived for 0.7 to 100 s, 3 to 9 waited at their end, for 0.55 to 42 s: 4
# to 13% of their lives in the mean. Of longer epochs a run sees too few ends to show that.
SHORT_EPOCH_SECONDS = 30.0


def with_autotune(
    plan: DataPlan, on: bool, cpu_budget: int | None = None, ram_budget_mib: int | None = None
) -> Rewrite:
    """The plan with tf.data's tuning switched off, or held to these budgets.

    :param cpu_budget: CPUs that it may plan with, None for its own choice.
    :param ram_budget_mib: memory for buffers in MiB, None for its own choice.
    """
    if plan.source.origin == "pydataset":
        return Rewrite(plan, reason="a PyDataset is read by Keras' own workers, not by tf.data")
    if not on and (changed := changed_by_reading_ahead(plan) or left_unfilled(plan)):
        return Rewrite(plan, reason=changed)
    stage = AutotuneStage(
        enabled=on,
        cpu_budget=cpu_budget if on else None,
        ram_budget_bytes=ram_budget_mib * 2**20 if on and ram_budget_mib else None,
    )
    return Rewrite(plan.append(stage), done=stage.describe())


@plugin
class Autotune(RewritingPlugin):
    """Holds tf.data's tuning to the CPUs and memory that are really there, or switches it off.

    What it does: sets tf.data's autotune options on every data set: its budgets of CPUs and
    memory, taken from affinity and cgroup, or switches tuning off.

    Why it helps: tf.data plans with the whole machine, also in a container that may use a part of
    it. Switched off, the end of an epoch no longer waits for its tuning thread, which sleeps in
    periods that double from 10 ms and is not always woken up: a wait may be as long as the epoch
    itself, and is 4 to 13% of it in the mean.

    When it does not: switched off, tf.data inserts no parallelism or buffers of its own and tunes
    none that are set to AUTOTUNE, so a pipeline that is the bottleneck gets slower. It stays
    on for data without a prefetch at their end that are repeated behind a shuffle, that draw from
    a generator and are repeated or read in given steps, or whose random values are in a cache that
    only tf.data's own prefetch fills: what is yielded later would change.

    Mixes with: cache, which leaves little to tune; set numbers in parallel-map and prefetch where
    it is switched off.

    Reference: https://www.tensorflow.org/api_docs/python/tf/data/experimental/AutotuneOptions
    """

    targets = ("input",)
    equivalence = "exact"  # the elements and their order are the same

    mode: Literal["budget", "off"] = setting(
        default="budget",
        help="Tune within the budgets, or do not tune while the pipeline runs.",
    )
    cpu_budget: int | Literal["auto"] = number_or(
        "auto", "CPUs that tuning plans with; auto takes those this process may use."
    )
    ram_budget_mib: int | Literal["auto"] = number_or(
        "auto", "Memory for buffers in MiB; auto takes half of what is free."
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Off where epochs are short, whose waits count as input; the budgets where they are long,
        the input matters, and a container leaves fewer CPUs than tf.data sees."""
        plan = diagnosis.plans.get("train")
        if plan is None or plan.source.origin == "pydataset":
            return None
        if any(stages_of(plan, AutotuneStage)):  # it is set already
            return None
        machine, steps = diagnosis.machine, diagnosis.steps_per_epoch
        if steps is not None and steps * diagnosis.step_seconds < SHORT_EPOCH_SECONDS:
            return {"mode": "off"}
        fewer = machine.cpu_count < machine.cpu_count_total
        return {"mode": "budget"} if fewer and input_matters(diagnosis) else None

    def resolve(self, probe: Probe) -> Autotune:
        """Take the budgets from what this process may use."""
        cpus, memory = self.cpu_budget, self.ram_budget_mib
        if cpus == "auto":
            cpus = probe.machine.cpu_count
        if memory == "auto":
            memory = max(1, int(probe.available_memory_bytes() * RAM_SHARE / 2**20))
        return attrs.evolve(self, cpu_budget=cpus, ram_budget_mib=memory)

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        # unresolved budgets are tf.data's own choice: a dry use of the hook, without a probe
        cpus = None if self.cpu_budget == "auto" else self.cpu_budget
        memory = None if self.ram_budget_mib == "auto" else self.ram_budget_mib
        return with_autotune(plan, self.mode != "off", cpus, memory)

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read the options back from the lowered data."""
        return effect_if(self, run, self._confirmed, "other options")

    def _confirmed(self, dataset: Any) -> bool:
        options = dataset.options().autotune
        if self.mode == "off":
            return options.enabled is False
        budgets = (
            (self.cpu_budget, options.cpu_budget),
            (self.ram_budget_mib, options.ram_budget // 2**20 if options.ram_budget else None),
        )
        return options.enabled is True and all(asked in ("auto", found) for asked, found in budgets)

    def by_hand(self) -> str:
        """The same in plain code."""
        lines = ["options = tf.data.Options()"]
        lines.append(f"options.autotune.enabled = {self.mode != 'off'}")
        if self.mode != "off" and self.cpu_budget != "auto":
            lines.append(f"options.autotune.cpu_budget = {self.cpu_budget}")
        if self.mode != "off" and self.ram_budget_mib != "auto":
            lines.append(f"options.autotune.ram_budget = {self.ram_budget_mib} * 2**20")
        return "\n".join([*lines, "train = train.with_options(options)  # the same for validation"])
