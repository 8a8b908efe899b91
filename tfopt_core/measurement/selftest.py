"""Check that measuring tells a slowdown from a no-op here (docs/guide/measuring.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import attrs

from tfopt_core.hooks import Machine
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.controls import Nothing, Sleeps
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.session import measure
from tfopt_core.recipe import MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.records.results import Results
from tfopt_core.records.verdict import Verdict
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

# Many short runs show more than few long ones: processes differ by 2 to 3% at any length.
EPOCHS, PAIRS = 4, 20
# One thread varies by 3% from second to second, two by 6% and more: the control tests the
# measuring, not the scheduler.
ENVIRONMENT = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
# The share of the no-op's verdicts that is wrong by chance, for a fixed number of pairs.
NOMINAL_RATE = 0.05

ControlName = Literal["nothing", "sleeps"]


@attrs.frozen
class ControlTrial:
    """One control, measured once."""

    control: ControlName
    results: Results

    @property
    def as_expected(self) -> bool:
        """Whether the no-op is neither faster nor slower, or the control that sleeps is slower."""
        verdict = self.results.comparison.verdict
        if self.control == "nothing":
            return verdict in (Verdict.NO_DIFFERENCE, Verdict.INCONCLUSIVE)
        return verdict is Verdict.SLOWER


def controls() -> dict[ControlName, StackedPlugin]:
    """Return the stacks of one control each, by name."""
    return {
        "nothing": StackedPlugin("nothing", Nothing()),
        "sleeps": StackedPlugin("sleeps", Sleeps()),
    }


def run_trial(
    control: ControlName,
    *,
    machine: Machine,
    folder: Path,
    environment: Mapping[str, str],
    runner: Runner,
    observer: Observer,
    pairs: int = PAIRS,
    epochs: int = EPOCHS,
    new_id: Callable[[], str],
) -> ControlTrial:
    """Measure one control as any stack is measured, and return its results.

    :param folder: the folder of the runs and of their store.
    :raises PreparationFailed: if no training works here.
    """
    recipe = Recipe(
        name=f"selftest: {control}",
        workload=WorkloadSpec(factory="tfopt_core.measurement.controls:workload", epochs=epochs),
        measure=MeasureSpec(pairs=pairs, attribution="off", seconds="whole"),
    )
    request = Request(
        recipe=recipe,
        plugins=(controls()[control],),
        machine=machine,
        folder=folder / "runs" / new_id(),
        environment={**environment, **ENVIRONMENT},
    )
    with Store(folder / "runs.sqlite") as store:
        # no certificate: it would take longer than a quarter of the runs, which test timing only
        results = measure(request, runner=runner, store=store, observer=observer, certify=False)
    return ControlTrial(control, results)
