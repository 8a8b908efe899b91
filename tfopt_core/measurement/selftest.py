"""Check that measuring tells a slowdown from a no-op here (docs/guide/measuring.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.plugin_class import Plugin, plugin
from tfopt_core.hooks.specs import hookimpl
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import Effect
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.session import measure
from tfopt_core.recipe.model import MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.statistics.results import Results, Verdict
from tfopt_core.store.database import Store
from tfopt_core.training.workload import Workload
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

# A sleep takes about 60 µs longer than requested, so short sleeps are added up first.
SLEEP_AT_LEAST_SECONDS = 0.005
CLASSES = 10
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


def run_trial(
    control: ControlName,
    *,
    machine: Machine,
    folder: Path,
    environment: Mapping[str, str],
    runner: Runner,
    observer: Observer,
    new_id: Callable[[], str],
) -> ControlTrial:
    """Measure one control as any stack is measured, and return its results.

    :param folder: the folder of the runs and of their store.
    :raises PreparationFailed: if no training works here.
    """
    recipe = Recipe(
        name=f"selftest: {control}",
        workload=WorkloadSpec(factory="tfopt_core.measurement.selftest:workload", epochs=EPOCHS),
        measure=MeasureSpec(pairs=PAIRS, attribution="off", seconds="whole"),
    )
    request = Request(
        recipe=recipe,
        plugins=(StackedPlugin(control, CONTROLS[control]()),),
        machine=machine,
        folder=folder / "runs" / new_id(),
        environment={**environment, **ENVIRONMENT},
    )
    with Store(folder / "runs.sqlite") as store:
        # no certificate: it would take longer than a quarter of the runs, which test timing only
        results = measure(request, runner=runner, store=store, observer=observer, certify=False)
    return ControlTrial(control, results)


# The controls are no optimizations and have no entry point: only `tfopt selftest` stacks them.


@plugin
class Nothing(Plugin):
    """Changes nothing, and reports that it took effect."""

    targets = ("compute",)
    equivalence = "exact"

    @hookimpl
    def report_effect(self, run: Any, model: Any, changes: Any) -> Effect:
        """Return that it was applied, so that the comparison is made."""
        return Effect.applied_as("does nothing, on purpose")


@plugin
class Sleeps(Plugin):
    """Makes every step longer by a share of itself.

    :param share: the share of the train function's time.
    """

    targets = ("compute",)
    equivalence = "exact"

    share: float = 0.05

    @hookimpl
    def wrap_model(self, run: Any, model: Any) -> Any:
        """Return the model with a train function that sleeps."""
        make = model.make_train_function

        def make_train_function(force: bool = False) -> None:
            if force or model.train_function is None:
                make(force=force)
                model.train_function = sleeping(model.train_function, self.share)

        model.make_train_function = make_train_function
        return model

    @hookimpl
    def report_effect(self, run: Any, model: Any, changes: Any) -> Effect:
        """Return that it was applied."""
        return Effect.applied_as(f"each step sleeps {self.share:.0%} of its time, on purpose")


CONTROLS: dict[ControlName, type[Plugin]] = {"nothing": Nothing, "sleeps": Sleeps}


def sleeping(
    function: Callable[..., Any],
    share: float,
    now: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Callable[..., Any]:
    """Return the function, made slower by this share of its own time.

    It sleeps only once the time to sleep is long enough to be exact; the excess of a sleep that
    took too long is subtracted from the next.
    """
    owed = 0.0

    def train_function(iterator: Any) -> Any:
        nonlocal owed
        begun = now()
        result = function(iterator)
        owed += share * (now() - begun)
        if owed >= SLEEP_AT_LEAST_SECONDS:
            begun = now()
            sleep(owed)
            owed -= now() - begun
        return result

    return train_function


def workload(
    features: int = 256, units: int = 1024, layers: int = 2, batch: int = 1024, steps: int = 8
) -> Workload:
    """Return a dense network on random data, whose steps always take about the same time.

    A step has few large operations, since switching between threads varies most.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    source = np.random.default_rng(0)
    examples = steps * batch
    x = source.normal(size=(examples, features)).astype("float32")
    y = source.integers(CLASSES, size=examples)

    # without tf.data's tuning thread, which ends an epoch up to seconds late
    options = tf.data.Options()
    options.autotune.enabled = False
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(examples).batch(batch)

    def build_model() -> Any:
        return keras.Sequential([
            keras.layers.Input((features,)),
            *(keras.layers.Dense(units, activation="relu") for _ in range(layers)),
            keras.layers.Dense(CLASSES),
        ])  # fmt: skip

    return Workload(
        train=data.with_options(options),
        build_model=build_model,
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        quality_metric="loss",
        baseline="a dense network on random data, by stock fit",
    )
