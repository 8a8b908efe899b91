"""Whether the measuring tells nothing from harm on this machine (MEASUREMENT.md, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import attrs

from tfopt_core.hooks import Machine
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measure.controls import Nothing, Sleeps
from tfopt_core.measure.isolate import Runner
from tfopt_core.measure.progress import Observer
from tfopt_core.measure.request import Request
from tfopt_core.measure.session import measure
from tfopt_core.recipe import MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.store.database import Store
from tfopt_core.store.results import Results

EPOCHS = 14
BUDGET_SECONDS = 300.0
# Of the no-op's verdicts so many are wrong by chance: the error rate of the looks together.
NOMINAL_RATE = 0.05

Control = Literal["nothing", "sleeps"]


@attrs.frozen
class Trial:
    """One control, measured once."""

    control: Control
    results: Results

    @property
    def as_expected(self) -> bool:
        """The no-op must be neither faster nor slower, the one that sleeps must be slower."""
        verdict = self.results.comparison.verdict
        if self.control == "nothing":
            return verdict not in ("faster", "slower", "worse", "quality open", "none")
        return verdict == "slower"


def controls() -> dict[Control, StackedPlugin]:
    """The stacks of one plugin that are measured, by name."""
    return {
        "nothing": StackedPlugin("nothing", Nothing()),
        "sleeps": StackedPlugin("sleeps", Sleeps()),
    }


def run_trial(
    control: Control,
    *,
    machine: Machine,
    folder: Path,
    environment: Mapping[str, str],
    runner: Runner,
    observer: Observer,
    budget_seconds: float = BUDGET_SECONDS,
    epochs: int = EPOCHS,
    new_id: Callable[[], str],
) -> Trial:
    """Measure one control as any stack is measured.

    :param folder: for the runs and a store of its own.
    :raises PreparationFailed: if training does not work here at all.
    """
    recipe = Recipe(
        name=f"selftest: {control}",
        workload=WorkloadSpec(factory="tfopt_core.measure.controls:workload", epochs=epochs),
        measure=MeasureSpec(budget_seconds=budget_seconds, attribution="off", length="full"),
    )
    request = Request(
        recipe=recipe,
        plugins=(controls()[control],),
        machine=machine,
        folder=folder / "runs" / new_id(),
        environment=environment,
    )
    with Store(folder / "runs.sqlite") as store:
        results = measure(request, runner=runner, store=store, observer=observer)
    return Trial(control, results)
