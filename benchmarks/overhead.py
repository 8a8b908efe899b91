"""What the loop that tfopt adds around `fit` costs a step, against the same options set by hand.

    .venv/bin/python benchmarks/overhead.py [--pairs 40]

Both sides train the same model on the same data set, epoch by epoch in turns (ABBA) within one
process; the time of each epoch's `fit` is divided by its steps. The ratio of the two, tfopt
against by hand, is printed with its 95% interval: 1.00 is no overhead.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

SEED = 1


class ByHand:
    """What a user would write: compile, fit."""

    def __init__(self, workload: Any, dataset: Any) -> None:
        self.model = workload.build_model()
        self.model.compile(
            optimizer=workload.optimizer, loss=workload.loss, metrics=[m() if callable(m) else m
                                                                       for m in workload.metrics]
        )  # fmt: skip
        self.dataset = dataset

    def epoch(self, number: int) -> float:
        """Train one epoch; seconds of its `fit`."""
        begin = perf_counter()
        self.model.fit(
            self.dataset, epochs=number + 1, initial_epoch=number, verbose=0, shuffle=False
        )
        return perf_counter() - begin


class ByTfopt:
    """The same through core: its clock, its epoch notifications, its callback list."""

    def __init__(self, recipe: Any, workload: Any) -> None:
        from tfopt_core.hooks import read_machine
        from tfopt_core.training.build import build
        from tfopt_core.training.job import Job
        from tfopt_core.training.segments import segmented_callbacks
        from tfopt_core.training.watch import Watch

        job = Job(recipe=recipe, plugins=(), variant="baseline", seed=SEED,
                  machine=read_machine(), folder=Path(tempfile.mkdtemp()))  # fmt: skip
        self.built = build(job, workload)
        self.watch = Watch(self.built, lambda message: None)
        self.watch.install()
        self.segmented = segmented_callbacks
        self.callback = self.watch.callback()

    def epoch(self, number: int) -> float:
        """Train one epoch; seconds of its `fit`, the making of its callbacks included."""
        begin = perf_counter()
        callbacks = self.segmented([self.callback], self.built.model, epochs=number + 1)
        self.built.model.fit(
            self.built.run.datasets["train"], epochs=number + 1, initial_epoch=number,
            callbacks=callbacks, verbose=0, shuffle=False,
        )  # fmt: skip
        return perf_counter() - begin


def measured(name: str, options: dict[str, Any], batch_size: int, pairs: int) -> str:
    """One line of the table."""
    import math

    import attrs
    import keras
    import tensorflow as tf

    from tfopt_core.data import DataPlan
    from tfopt_core.data.lower import lower
    from tfopt_core.measure.statistics import log_ratios, median, t_interval
    from tfopt_core.recipe import Recipe, WorkloadSpec
    from tfopt_core.training.factory import load_workload
    from tfopt_core.training.sources import as_plan, batched_plan

    recipe = Recipe(name=name, workload=WorkloadSpec(use=name, options=options))
    keras.utils.set_random_seed(SEED)
    workload = load_workload(recipe)
    plan = batched_plan(as_plan(workload.train, "train"), "train", batch_size=batch_size,
                        explicit=True, shuffle=True, seed=SEED)  # fmt: skip
    still = tf.data.Options()
    # tf.data's tuning thread would make epochs wait for up to their own length at random
    still.autotune.enabled = False
    dataset = lower(plan).cache().with_options(still)
    steps = int(dataset.cardinality())
    shared = attrs.evolve(workload, train=DataPlan.from_dataset(dataset), validation=None)
    sides = {"hand": ByHand(workload, dataset), "tfopt": ByTfopt(recipe, shared)}
    seconds: dict[str, list[float]] = {"hand": [], "tfopt": []}
    for number in range(pairs + 1):
        order = ["hand", "tfopt"] if number % 2 else ["tfopt", "hand"]
        for side in order:
            took = sides[side].epoch(number)
            if number:  # the first epoch traces and fills the cache
                seconds[side].append(took / steps)
    interval = t_interval(log_ratios(seconds["tfopt"], seconds["hand"]), 0.05)
    low, high = math.exp(interval.low), math.exp(interval.high)
    return (
        f"{name:<14} {batch_size:>5} {steps:>6} {median(seconds['hand']) * 1e6:>10.1f} "
        f"{median(seconds['tfopt']) * 1e6:>10.1f}   {math.exp(interval.mean):.4f} "
        f"({low:.4f} to {high:.4f})"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40, help="epochs of each side")
    pairs = parser.parse_args().pairs
    print(f"{'workload':<14} {'batch':>5} {'steps':>6} {'hand us':>10} {'tfopt us':>10}   "
          "ratio (95% interval)")  # fmt: skip
    print(measured("flights", {"prepare": "ahead", "examples": 40000}, 128, pairs), flush=True)
    print(measured("fashion-mnist", {"examples": 3200}, 32, pairs), flush=True)


if __name__ == "__main__":
    main()
