"""Interleave: several files are read at once."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import Interleave as InterleaveStage
from tfopt_core.data import Stage, all_ops, function_graph
from tfopt_core.plugins import DataPlan, Diagnosis, Probe, RunContext, Split, plugin, setting
from tfopt_core.toolkit import number_or
from tfopt_data.rewrite import (
    Rewrite,
    RewritingPlugin,
    chosen_otherwise,
    costly_input,
    in_parts,
    stages_of,
)

# Reading waits for the disk or network, so more files than CPUs are worth it; each open file
# holds a buffer.
FILES_PER_CPU, MOST_FILES = 2, 16
# The ops of data sets that read the file that they are given.
_READERS = ("CSVDataset", "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset")


def with_interleave(plan: DataPlan, cycle_length: int, ordered: bool = True) -> Rewrite:
    """The plan with files that were read one after another read `cycle_length` at a time.

    :param ordered: whether the order is the same each time; it is another one in any case.
    """
    done: list[str] = []
    reasons: list[str] = []

    def interleaved(part: DataPlan, behind: tuple[Stage, ...]) -> DataPlan:
        if part.source.origin == "concatenate":  # a zip would pair other elements
            part = in_parts(part, lambda inner: interleaved(inner, (*part.stages[1:], *behind)))
        for index, stage in enumerate(part.stages):
            if not isinstance(stage, InterleaveStage):
                continue
            reason = _refusal(part, index, (*part.stages[index + 1 :], *behind))
            if reason:
                reasons.append(f"{stage.describe()}: {reason}")
                continue
            files = part.upto(index).cardinality
            length = cycle_length if files is None else min(cycle_length, files)
            new = attrs.evolve(stage, cycle_length=length, parallel="auto", ordered=ordered)
            part = part.replace(index, new)
            done.append(f"{stage.describe()} -> {length} files at once")
        return part

    made = interleaved(plan, ())
    if not done:
        return Rewrite(plan, reason="; ".join(reasons) or "no files are read one after another")
    return Rewrite(made, done="; ".join(done))


def _refusal(plan: DataPlan, index: int, behind: tuple[Stage, ...]) -> str:
    """Why this stage stays as it is, "" if its files may be read at once."""
    stage = plan.stages[index]
    assert isinstance(stage, InterleaveStage)
    if stage.cycle_length != 1:
        return "reads several at once already"
    if plan.upto(index).cardinality == 1:
        return "there is one file"
    # by the graph of the function that makes a data set of each element
    if not any(op.startswith(_READERS) for op in all_ops(function_graph(plan, index))):
        return "makes its data of something else than files"
    return chosen_otherwise(behind)


@plugin
class Interleave(RewritingPlugin):
    """Reads several files at once instead of one after another.

    What it does: gives the stage that reads TFRecord, text or record files one by one (flat_map)
    a cycle of several files, read in parallel.

    Why it helps: while one file is waited for, others are read and unpacked; with files on a
    network or an object store most of the waiting goes away.

    When it does not: for one file; for files that the operating system holds in memory; where
    decoding, not reading, takes the time.

    Mixes with: cache, with which only the first epoch is faster; parallel-map. Examples come in
    another order, so shuffle well behind it.

    Reference: https://www.tensorflow.org/guide/data_performance#parallelizing_data_extraction
    """

    targets = ("input",)
    _sign = "ParallelInterleave"
    equivalence = "order"  # the same examples, in another order

    cycle_length: int | Literal["auto"] = number_or(
        "auto", "Files that are read at once; auto takes two for each CPU, 16 at most."
    )
    ordered: bool = setting(
        default=True,
        help="Whether examples come in the same order each time; false may be faster.",
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where several elements are made into data sets one by one, and input takes time."""
        plan = costly_input(diagnosis)
        if plan is None:
            return None
        return {} if any(s.cycle_length == 1 for s in stages_of(plan, InterleaveStage)) else None

    def resolve(self, probe: Probe) -> Interleave:
        """Take the number of files from the CPUs that this process may use."""
        if self.cycle_length != "auto":
            return self
        return attrs.evolve(self, cycle_length=files_at_once(probe.machine.cpu_count))

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        length = self.cycle_length
        if length == "auto":  # a dry use of the hook, without a probe
            length = files_at_once(run.machine.cpu_count)
        return with_interleave(plan, length, self.ordered)

    def by_hand(self) -> str:
        """The same in plain code."""
        cycle = "" if self.cycle_length == "auto" else f"cycle_length={self.cycle_length}, "
        return (
            f"train = files.interleave(tf.data.TFRecordDataset, {cycle}"
            f"num_parallel_calls=tf.data.AUTOTUNE, deterministic={self.ordered})"
        )


def files_at_once(cpu_count: int) -> int:
    """How many files are read at once on so many CPUs."""
    return min(MOST_FILES, FILES_PER_CPU * cpu_count)
