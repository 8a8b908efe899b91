"""Check that measuring tells a slowdown from a no-op here (MEASUREMENT.md, section 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tfopt_core.hooks import Machine
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.controls import Nothing, Sleeps
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.session import measure
from tfopt_core.recipe import MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.records.selftest import ControlName, ControlTrial
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

# Many short runs tell more than few long ones: processes differ by 2 to 3% however long they run.
EPOCHS, PAIRS = 4, 20
# One thread varies by 3% from second to second where two vary by 6% and more: the control is to
# find what the measuring can tell, not what a scheduler does.
ENVIRONMENT = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
# Of the no-op's verdicts so many are wrong by chance: the error rate of a fixed number of pairs.
NOMINAL_RATE = 0.05


def controls() -> dict[ControlName, StackedPlugin]:
    """Return the stacks of one plugin that are measured, by name."""
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
    """Measure one control as any stack is measured.

    :param folder: for the runs and a store of its own.
    :raises PreparationFailed: if training does not work here at all.
    """
    recipe = Recipe(
        name=f"selftest: {control}",
        workload=WorkloadSpec(factory="tfopt_core.measurement.controls:workload", epochs=epochs),
        measure=MeasureSpec(pairs=pairs, attribution="off", length="full"),
    )
    request = Request(
        recipe=recipe,
        plugins=(controls()[control],),
        machine=machine,
        folder=folder / "runs" / new_id(),
        environment={**environment, **ENVIRONMENT},
    )
    with Store(folder / "runs.sqlite") as store:
        # the controls are about timing; a certificate takes longer than a quarter of their runs
        results = measure(request, runner=runner, store=store, observer=observer, certify=False)
    return ControlTrial(control, results)
