"""The measurements that `resolve` may request before a run is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from tfopt_core.hooks.machine import Machine


@attrs.frozen(eq=False)
class ProbedTraining:
    """A compiled model, the train step that the stack makes of its own, and a batch of data."""

    model: Any
    train_step: Callable[[Any], Any]
    batch: Any


class Probe(Protocol):
    """The argument of a plugin's `resolve(probe)`, once per measurement, in a process of its own.

    Nothing here is part of a timed run; the seconds are printed as set-up cost.
    """

    @property
    def machine(self) -> Machine:
        """The machine."""

    @property
    def epochs(self) -> int:
        """Number of epochs of a run."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of one epoch of the training data, None if unknown."""

    @property
    def conflicts(self) -> Mapping[str, str]:
        """The plugins that others of the stack conflict with, each with the one that says so."""

    def plan(self, split: str = "train") -> Any:
        """Return the `DataPlan` of a split as they are without any plugin.

        :raises ValueError: if the workload has no data for the split.
        """

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Return the mean bytes of one example after the workload's deterministic stages, and the
        number of examples (None if unknown).

        :raises ValueError: if the workload has no data for the split.
        """

    def held_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Return the same, with the overhead of an example's tensors when they are held in memory.

        :raises ValueError: if the workload has no data for the split.
        """

    def available_disk_bytes(self) -> int:
        """Return the free bytes on the disk where the runs write their files."""

    def available_memory_bytes(self) -> int:
        """Return the memory in bytes that this process may still use, cgroup limits included."""

    def note(self, text: str) -> None:
        """Have the output say how the settings were found; a phrase that names what was tried."""

    def peak_memory_bytes(self, plugin: Any) -> int | None:
        """Return the peak resident memory of a process that trains some steps with the full stack,
        with `plugin` in place of the one that is being resolved; None where memory ran out.

        Where memory is short, the kernel ends that process before others.

        :raises PluginRefused: with the reason, if it failed otherwise.
        """

    def step_seconds(self, plugins: Sequence[Any]) -> list[float]:
        """Return the median seconds of a steady training step with the full stack, with each of
        these in place of the plugin that is being resolved, timed in turns.

        Plugins behind it whose settings are not resolved yet are left out. One with which no
        training can be built or traced gets infinite seconds; the results name it with the reason.
        So does, without a word, one whose call of several steps would take more than 3 s. Timing
        ends early once one of them is the fastest in every turn by far.
        """

    def model(self, plugin: Any) -> Any:
        """Return the compiled model with the full stack, with `plugin` in place of the one that is
        being resolved; nothing is read from the data."""

    def training(self, plugin: Any) -> ProbedTraining:
        """Return the training with the full stack, with `plugin` in place of the one that is being
        resolved, ready for a step.

        The model is built for this alone, except in a script: there it is the script's own, whose
        variables must be put back.
        """
