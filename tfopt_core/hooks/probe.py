"""What `resolve` may ask before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tfopt_core.hooks.machine import Machine


class Probe(Protocol):
    """Handed to a plugin's `resolve(probe)`, once per measurement, in a process of its own.

    Nothing that is done here is part of a timed run; the seconds are printed as set-up cost.
    """

    @property
    def machine(self) -> Machine:
        """What this machine has."""

    @property
    def epochs(self) -> int:
        """How many epochs a run trains."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of one epoch of the training data, None where unknown."""

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Mean bytes of one example as the workload's deterministic stages yield it, and how
        many examples there are (None where unknown).

        :raises ValueError: if the workload has no data for the split.
        """

    def held_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """The same, with what the tensors of an example take beside their values once they are
        kept in memory.

        :raises ValueError: if the workload has no data for the split.
        """

    def available_disk_bytes(self) -> int:
        """What is left on the disk where the runs keep their files."""

    def available_memory_bytes(self) -> int:
        """Memory that this process may still take, cgroup limits included."""

    def step_seconds(self, plugin: Any, **training_options: Any) -> float:
        """Median seconds of a steady training step with the full stack, in which `plugin`
        replaces the one that is being resolved, and these fields of `TrainingOptions` are set
        last."""

    def loop_seconds(
        self, plugin: Any, loops: Sequence[tuple[str, int, bool | str]]
    ) -> list[float]:
        """Median seconds of a steady training step in each of these loops, timed in turns within
        one training: the full stack with `plugin` in place of the one that is being resolved.

        A loop is a mode ("keras", "chunked", "resident"), steps a call, and whether XLA compiles
        it ("auto": as the stack has it). One that cannot train the model takes infinitely long;
        the results name it with the reason. A resident loop makes fewer steps a call where those
        would take longer than 0.1 s.
        """
