"""Measure what tfopt's code around `fit` costs a step, against the same options set by hand.

    .venv/bin/python benchmarks/overhead.py [--pairs 60] [--smoke]

Two contrasts, each printed with its 95% interval; 1.00 is no overhead:

- "epochs": two models on the same data set, compiled and fitted by hand and through core, take
  turns epoch by epoch (ABBA) within one process; the time of `fit` is divided by its steps.
- "in-run": within one `fit` the train function of Keras and the same function under core's clock
  take turns in blocks of steps (ABBA). Core adds only the clock to a step, so this answers the same
  question without the machine's drift.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from options import make_parser, positive

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

SEED = 1
# Steps of a block, and how often the data are repeated, in the contrast within one `fit`.
BLOCK, IN_RUN_EPOCHS = 20, 20
# To check that it runs.
SMOKE_EXAMPLES, SMOKE_PAIRS = 640, 2


class ByHand:
    """A training as a user writes it: compile, fit."""

    def __init__(self, workload: Any, dataset: Any) -> None:
        self.model, optimizer = workload.build_model(), workload.optimizer
        self.model.compile(
            optimizer=optimizer() if callable(optimizer) else optimizer, loss=workload.loss,
            metrics=[m() if callable(m) else m for m in workload.metrics],
        )  # fmt: skip
        self.dataset = dataset

    def epoch(self, number: int) -> float:
        """Train one epoch and return the seconds of its `fit`."""
        begin = perf_counter()
        self.model.fit(
            self.dataset, epochs=number + 1, initial_epoch=number, verbose=0, shuffle=False
        )
        return perf_counter() - begin


class ByTfopt:
    """The same training through core: its clock, its epoch events, its callback list."""

    def __init__(self, recipe: Any, workload: Any) -> None:
        from tfopt_core.hooks.machine import read_machine
        from tfopt_core.training.build import build
        from tfopt_core.training.fit_monitor import FitMonitor
        from tfopt_core.training.job import Job
        from tfopt_core.training.timed_function import TimedFunction

        job = Job(recipe=recipe, plugins=(), variant="baseline", seed=SEED,
                  machine=read_machine(), folder=Path(tempfile.mkdtemp()))  # fmt: skip
        self.built = build(job, workload)
        self.timed = TimedFunction(self.built)
        self.own = FitMonitor(self.timed, lambda message: None).callbacks([])
        self.timed.install()

    def epoch(self, number: int) -> float:
        """Train one epoch and return the seconds of its `fit`."""
        begin = perf_counter()
        self.built.model.fit(
            self.built.run.datasets["train"], epochs=number + 1, initial_epoch=number,
            callbacks=self.own, verbose=0, shuffle=False,
        )  # fmt: skip
        return perf_counter() - begin


class TakesTurns:
    """A train function that calls the plain and the clocked one in turns, and times both."""

    def __init__(self, plain: Any, clocked: Any) -> None:
        self.functions = (plain, clocked)
        self.seconds: tuple[list[float], list[float]] = ([], [])
        self.calls = 0
        self.begin = 0.0

    def __call__(self, iterator: Any) -> Any:
        block, place = divmod(self.calls, BLOCK)
        side = (0, 1, 1, 0)[block % 4]
        if place == 0:
            self.begin = perf_counter()
        result = self.functions[side](iterator)
        self.calls += 1
        if place == BLOCK - 1:
            self.seconds[side].append((perf_counter() - self.begin) / BLOCK)
        return result


def in_run(built: Any, timed: Any, callbacks: list[Any]) -> Any:
    """The log ratios of the clocked to the plain steps, from blocks within one `fit`."""
    from tfopt_core.statistics.intervals import log_ratios

    model = built.model
    model.train_function = None
    model.make_train_function()
    plain = model.train_function
    turns = TakesTurns(plain, timed.clock.timed(plain))
    model.train_function = turns
    data = built.run.datasets["train"].repeat(IN_RUN_EPOCHS)
    model.fit(data, epochs=1, callbacks=callbacks, verbose=0, shuffle=False)
    skip = 4  # the blocks that trace
    pairs = min(len(seconds) for seconds in turns.seconds)
    return log_ratios(turns.seconds[1][skip:pairs], turns.seconds[0][skip:pairs])


def ratio_in_words(logs: Any) -> str:
    """Return the ratio with its interval: `1.0012 (0.9990 to 1.0034)`."""
    import math

    from tfopt_core.statistics.intervals import t_interval

    interval = t_interval(logs, 0.05)
    mean, low, high = (math.exp(x) for x in (interval.mean, interval.low, interval.high))
    return f"{mean:.4f} ({low:.4f} to {high:.4f})"


def measured(name: str, options: dict[str, Any], batch_size: int, pairs: int) -> str:
    """Return one row of the table."""
    import attrs
    import keras
    import tensorflow as tf

    from tfopt_core.data import DataPlan
    from tfopt_core.data.lower import lower
    from tfopt_core.recipe.model import Recipe, WorkloadSpec
    from tfopt_core.statistics.intervals import log_ratios
    from tfopt_core.training.factory import load_workload
    from tfopt_core.training.input.sources import as_plan, batched_plan

    recipe = Recipe(name=name, workload=WorkloadSpec(use=name, options=options))
    keras.utils.set_random_seed(SEED)
    workload = load_workload(recipe)
    plan = batched_plan(as_plan(workload.train, "train"), "train", batch_size=batch_size,
                        explicit=True, shuffle=True, seed=SEED)  # fmt: skip
    still = tf.data.Options()
    # tf.data's tuning thread would delay the ends of epochs at random
    still.autotune.enabled = False
    dataset = lower(plan).cache().with_options(still)
    steps = int(dataset.cardinality())
    shared = attrs.evolve(workload, train=DataPlan.from_dataset(dataset), validation=None)
    core = ByTfopt(recipe, shared)
    sides: dict[str, ByHand | ByTfopt] = {"hand": ByHand(workload, dataset), "tfopt": core}
    seconds: dict[str, list[float]] = {"hand": [], "tfopt": []}
    for number in range(pairs + 1):
        order = ["hand", "tfopt"] if number % 2 else ["tfopt", "hand"]
        for side in order:
            took = sides[side].epoch(number)
            if number:  # the first epoch traces and fills the cache
                seconds[side].append(took / steps)
    whole = ratio_in_words(log_ratios(seconds["tfopt"], seconds["hand"]))
    inside = ratio_in_words(in_run(core.built, core.timed, core.own))
    return (
        f"{name:<14} {batch_size:>5} {steps:>6} {median(seconds['hand']) * 1e6:>8.1f} "
        f"{median(seconds['tfopt']) * 1e6:>8.1f}  {whole}  {inside}"
    )


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=positive, default=60, help="epochs of each side")
    options = parser.parse_args()
    print(f"{'workload':<14} {'batch':>5} {'steps':>6} {'hand us':>8} {'tfopt us':>8}  "
          f"{'epochs':<26}in-run")  # fmt: skip
    if options.smoke:
        few = {"prepare": "ahead", "examples": SMOKE_EXAMPLES}
        print(measured("flights", few, 32, SMOKE_PAIRS), flush=True)
        return
    print(
        measured("flights", {"prepare": "ahead", "examples": 40000}, 32, options.pairs),
        flush=True,
    )
    print(measured("fashion-mnist", {"examples": 4800}, 32, options.pairs), flush=True)


if __name__ == "__main__":
    main()
