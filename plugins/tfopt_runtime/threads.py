"""Threads: TensorFlow's thread pools take the CPUs that this process may use."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Machine,
    Plugin,
    RunContext,
    RuntimeOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import process_cpus, tf


def thread_counts(machine: Machine, intra_op: int | None, inter_op: int | None) -> tuple[int, int]:
    """Intra-op and inter-op threads; one that is None becomes the usable CPUs."""
    return intra_op or machine.cpu_count, inter_op or machine.cpu_count


def tensorflow_default() -> int:
    """How many threads either pool gets by itself: the CPUs of the affinity, without quotas."""
    return len(process_cpus())


_at_least_one = validators.optional(validators.ge(1))


@plugin
class Threads(Plugin):
    """Sets how many threads TensorFlow computes with.

    What it does: sets the threads within one operation (intra-op) and the operations at once
    (inter-op) before TensorFlow starts. One that is left out becomes the CPUs that affinity and
    cgroup quota leave to this process.

    Why it helps: in a container with a CPU quota TensorFlow starts a thread for each CPU of the
    host, and they get in each other's way.

    When it does not: where the process may use the whole machine, TensorFlow's own choice is the
    same. Few inter-op threads slow down input pipelines, whose maps run on them.

    Mixes with: everything; parallel-map with a fixed number of calls needs inter-op threads.

    Reference: https://www.tensorflow.org/api_docs/python/tf/config/threading
    """

    targets = ("compute",)
    equivalence = "rounding"  # sums are split over another number of threads

    intra_op: int | None = setting(
        default=None,
        validator=_at_least_one,
        help="Threads within one operation; left out, the CPUs usable here.",
    )
    inter_op: int | None = setting(
        default=None,
        validator=_at_least_one,
        help="Operations run at once; left out, the CPUs usable here.",
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it where TensorFlow's own choice is not the CPUs that this process may use."""
        return {} if diagnosis.machine.cpu_count != tensorflow_default() else None

    @hookimpl
    def configure_runtime(self, machine: Machine, options: RuntimeOptions) -> RuntimeOptions:
        """Set both pools."""
        intra, inter = thread_counts(machine, self.intra_op, self.inter_op)
        return attrs.evolve(options, intra_op_threads=intra, inter_op_threads=inter)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read both pools back from TensorFlow."""
        pools = (
            tf.config.threading.get_intra_op_parallelism_threads(),
            tf.config.threading.get_inter_op_parallelism_threads(),
        )
        wanted = thread_counts(run.machine, self.intra_op, self.inter_op)
        said = f"{pools[0]} intra-op and {pools[1]} inter-op threads"
        if pools != wanted:
            return Effect.not_applied(f"TensorFlow reads back {said} (0 is its own choice)")
        if pools == (tensorflow_default(),) * 2:
            return Effect.not_applied(f"{said} are TensorFlow's own choice here")
        return Effect.applied_as(said)

    def by_hand(self) -> str:
        """The same in plain code."""
        numbers = {"intra": self.intra_op, "inter": self.inter_op}
        lines = [
            f"tf.config.threading.set_{name}_op_parallelism_threads({number or 'cpus'})"
            for name, number in numbers.items()
        ]
        if None in numbers.values():
            lines.insert(0, "# `cpus`: those that affinity and cgroup quota leave to the process")
        return "\n".join(lines)
