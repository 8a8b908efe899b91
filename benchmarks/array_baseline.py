"""Compare the baseline of a factory with arrays to `model.fit(x, y)` as a user writes it.

    .venv/bin/python benchmarks/array_baseline.py [--pairs 16] [--only mlp,flights] [--smoke]

Both sides train the same workload from the same seed, each run in a process of its own that is
forked from one that has imported TensorFlow. A pair is a run of each; of two pairs the order is
ABBA or BAAB, drawn anew. tfopt's side is built and trained as a run of `tfopt apply` is, with an
empty stack, for all epochs.

Two lines a workload: "epoch" is the mean time of an epoch's steps from the second epoch on, taken
on both sides by the same Keras callback, without validation; "training" is the wall time from the
start of the model's building to the end of `fit`. "steps" are those of an epoch; both times are
medians. The ratio is tfopt's time over that of `fit(x, y)` with its 95% interval over the pairs:
above 1 tfopt's baseline is the slower one. The last column compares that interval with the bar.

16 pairs take about 15 minutes on two idle cores.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import attrs
from measured import in_fork
from options import make_parser

BAR = 1.03
# The draw of the orders; seeds of the trainings are counted from it.
SEED = 1


@attrs.frozen
class Line:
    """A workload of the table; the options make an epoch some seconds, not its step another.

    :param options: of the workload's factory.
    :param smoke_options: those of `--smoke`.
    """

    load: Callable[..., Any]
    epochs: int
    batch_size: int
    options: dict[str, Any]
    smoke_options: dict[str, Any]


@attrs.frozen
class Times:
    """What one run took, in seconds, and the steps of an epoch."""

    epoch: float
    training: float
    steps: int


def shipped(name: str) -> Callable[..., Any]:
    """The factory of a workload that ships."""

    def load(**options: Any) -> Any:
        from tfopt_core.recipe import Recipe, WorkloadSpec
        from tfopt_core.training.factory import load_workload

        return load_workload(Recipe(name=name, workload=WorkloadSpec(use=name, options=options)))

    return load


def mlp(**options: Any) -> Any:
    """64-32-10, trained by plain gradient descent: a step of about 0.5 ms, little but dispatch."""
    import networks

    def build_model() -> Any:
        import keras
        from keras import layers

        pixels = keras.Input((64,))
        hidden = layers.Dense(32, activation="relu")(pixels)
        return keras.Model(pixels, layers.Dense(networks.CLASSES)(hidden))

    small = networks.mlp(**options)
    return attrs.evolve(small, build_model=build_model, optimizer="sgd", metrics=())


LINES = {
    "mlp": Line(mlp, 10, 32, {"examples": 10_000}, {"examples": 320}),
    "flights": Line(
        shipped("flights"), 6, 128, {"prepare": "ahead"}, {"prepare": "ahead", "examples": 640}
    ),
    "weather": Line(shipped("weather"), 5, 64, {"examples": 6_400}, {"examples": 128}),
    "stdlib-text": Line(shipped("stdlib-text"), 4, 32, {"examples": 3_200}, {"examples": 64}),
}


def epoch_clock() -> Any:
    """A Keras callback that lists in `seconds` how long each epoch's steps took."""
    import keras

    class EpochClock(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []
            self.begin = 0.0
            self.training = False

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.training, self.begin = True, perf_counter()

        def on_test_begin(self, logs: Any = None) -> None:
            self._steps_are_done()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self._steps_are_done()

        def _steps_are_done(self) -> None:
            if self.training:
                self.seconds.append(perf_counter() - self.begin)
                self.training = False

    return EpochClock()


def mean_warm(seconds: list[float]) -> float:
    """The mean of the epochs from the second on: the first one traces."""
    return sum(seconds[1:]) / len(seconds[1:])


def by_hand(line: Line, workload: Any, seed: int) -> Times:
    """Train as a user writes it: arrays, `compile`, `fit(x, y)`."""
    import keras

    (x, y), validation = workload.train.source.value, workload.validation.source.value
    clock = epoch_clock()
    began = perf_counter()
    keras.utils.set_random_seed(seed)
    optimizer = workload.optimizer
    model = workload.build_model()
    model.compile(
        optimizer=optimizer() if callable(optimizer) else optimizer,
        loss=workload.loss,
        metrics=[metric() if callable(metric) else metric for metric in workload.metrics],
    )
    model.fit(
        x, y, validation_data=validation, epochs=line.epochs, batch_size=line.batch_size,
        callbacks=[clock], verbose=0,
    )  # fmt: skip
    seconds = perf_counter() - began
    return Times(mean_warm(clock.seconds), seconds, -(-len(y) // line.batch_size))


def by_tfopt(line: Line, workload: Any, seed: int) -> Times:
    """Train the baseline: an empty stack, as a run of `tfopt apply` builds and trains it."""
    from time import perf_counter_ns

    from tfopt_core.hooks import read_machine
    from tfopt_core.recipe import Recipe, WorkloadSpec
    from tfopt_core.training.build import build
    from tfopt_core.training.fit import train
    from tfopt_core.training.job import Job

    clock = epoch_clock()
    spec = WorkloadSpec(use="baseline", epochs=line.epochs, batch_size=line.batch_size)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(recipe=Recipe(name="baseline", workload=spec), plugins=(), variant="baseline",
                  seed=seed, machine=read_machine(), folder=Path(folder))  # fmt: skip
        began = perf_counter_ns()
        built = build(job, attrs.evolve(workload, callbacks=lambda: [clock]))
        outcome = train(built, began, lambda message: None)
    return Times(mean_warm(clock.seconds), outcome.wall_seconds, outcome.steps // line.epochs)


SIDES = {"fit": by_hand, "tfopt": by_tfopt}


def trained(side: str, line: Line, options: dict[str, Any], seed: int) -> Times:
    """Train as one side does; called in a process of its own."""
    import keras

    keras.utils.set_random_seed(seed)
    return SIDES[side](line, line.load(**options), seed)


def order_of(pairs: int) -> list[tuple[str, str]]:
    """Which side comes first in each pair: of two pairs ABBA or BAAB, drawn."""
    draw = random.Random(SEED)
    order: list[tuple[str, str]] = []
    while len(order) < pairs:
        first = draw.choice([("fit", "tfopt"), ("tfopt", "fit")])
        order += [first, (first[1], first[0])]
    return order[:pairs]


def rows(name: str, pairs: int, smoke: bool) -> list[str]:
    """Measure a workload; its two lines of the table."""
    from tfopt_core.measure.statistics import log_ratios, median, speedup_interval, t_interval

    line = LINES[name]
    if smoke:
        line = attrs.evolve(line, epochs=2)
    options = line.smoke_options if smoke else line.options
    runs: dict[str, list[Times]] = {side: [] for side in SIDES}
    for number, pair in enumerate(order_of(pairs)):
        for side in pair:
            runs[side].append(in_fork(trained, side, line, options, SEED + number))
    steps = {run.steps for side in SIDES for run in runs[side]}
    if len(steps) > 1:
        raise SystemExit(f"{name}: the sides made unlike numbers of steps an epoch: {steps}")
    table = []
    for part in ("epoch", "training"):
        by_fit, ours = ([getattr(run, part) for run in runs[side]] for side in ("fit", "tfopt"))
        ratio, low, high = speedup_interval(t_interval(log_ratios(ours, by_fit), 0.05))
        bar = "no slower" if high <= BAR else "slower" if low > BAR else "not resolved"
        table.append(
            f"{name:<13}{part:<9}{min(steps):>6}{median(by_fit):>13.4f}{median(ours):>18.4f}  "
            f"{f'{ratio:.3f} ({low:.3f} to {high:.3f})':<25}{bar}"
        )
    return table


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=16, help="runs of each side, at least 2")
    parser.add_argument("--only", help=f"some of {','.join(LINES)}")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(LINES)
    if asked.smoke and not asked.only:
        names = ["mlp", "flights"]
    print(f"{'workload':<13}{'part':<9}{'steps':>6}{'fit(x, y) s':>13}{'tfopt baseline s':>18}  "
          f"{'ratio (95%)':<25}bar {BAR}")  # fmt: skip
    for name in names:
        for row in rows(name, 2 if asked.smoke else asked.pairs, asked.smoke):
            print(row, flush=True)


if __name__ == "__main__":
    main()
