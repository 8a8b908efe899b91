"""Compare the baseline of a factory with arrays to `model.fit(x, y)` as a user writes it.

    .venv/bin/python benchmarks/array_baseline.py [--rounds 40] [--pairs 8] [--only mlp] [--smoke]

Two lines a workload. "epoch": one process builds the baseline as a run of `tfopt apply` does, with
an empty stack, and trains its model for an epoch from the arrays and for one from the baseline's
data set, in turns (which comes first is drawn for each round): the time of an epoch's steps, taken
by the same Keras callback. "training": a whole training in a process of its own, from the start of
the model's building to the end of `fit`, with the validation, by `model.fit(x, y)` and as a run of
`tfopt apply`; of two pairs the order is ABBA or BAAB, drawn anew, and both of a pair share a seed.

"each" counts the epochs or trainings of a side; both times are medians. The ratio is tfopt's time
over that of `fit(x, y)` with its 95% interval over rounds or pairs: above 1 tfopt is slower.
The last column compares that interval with the bar.

All of it takes about 15 minutes on two idle cores.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import attrs
from measured import in_fork
from options import make_parser, positive

BAR = 1.03
# The seed of the orders; the seeds of the trainings count from it.
SEED = 1


@attrs.frozen
class Line:
    """A workload of the table; the options shorten an epoch without changing its steps.

    :param options: the options of the workload's factory.
    :param smoke_options: the options with `--smoke`.
    """

    load: Callable[..., Any]
    epochs: int
    batch_size: int
    options: dict[str, Any]
    smoke_options: dict[str, Any]


def shipped(name: str) -> Callable[..., Any]:
    """Return the factory of a shipped workload."""

    def load(**options: Any) -> Any:
        from tfopt_core.recipe.model import Recipe, WorkloadSpec
        from tfopt_core.training.factory import load_workload

        return load_workload(Recipe(name=name, workload=WorkloadSpec(use=name, options=options)))

    return load


def mlp(**options: Any) -> Any:
    """Return a 64-32-10 network with plain gradient descent: a step of 0.5 ms, mostly dispatch."""
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
    """Return a Keras callback that lists the time of each epoch's steps in `seconds`."""
    import keras

    class EpochClock(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []
            self.begin = 0.0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begin = perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds.append(perf_counter() - self.begin)

    return EpochClock()


def baseline(line: Line, workload: Any, seed: int, folder: str) -> Any:
    """Return the training that a run with an empty stack builds."""
    from tfopt_core.hooks.machine import read_machine
    from tfopt_core.recipe.model import Recipe, WorkloadSpec
    from tfopt_core.training.build import build
    from tfopt_core.training.job import Job

    spec = WorkloadSpec(use="baseline", epochs=line.epochs, batch_size=line.batch_size)
    return build(
        Job(recipe=Recipe(name="baseline", workload=spec), plugins=(), variant="baseline",
            seed=seed, machine=read_machine(), folder=Path(folder)),
        workload,
    )  # fmt: skip


def epochs_in_turns(line: Line, options: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each side's epochs, without a first round, which traces."""
    workload = line.load(**options)
    x, y = workload.train.source.value
    draw = random.Random(SEED)
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        built = baseline(line, workload, SEED, folder)
        data = built.run.datasets["train"]
        for _ in range(rounds + 1):
            for side in draw.sample(list(SIDES), k=2):
                clock = epoch_clock()
                arguments = (x, y, line.batch_size) if side == "fit" else (data,)
                built.model.fit(*arguments, epochs=1, verbose=0, callbacks=[clock])
                seconds[side] += clock.seconds
    return {side: of_side[1:] for side, of_side in seconds.items()}


def by_hand(line: Line, workload: Any, seed: int) -> float:
    """Train as a user writes it: arrays, `compile`, `fit(x, y)`. Return the seconds."""
    import keras

    (x, y), validation = workload.train.source.value, workload.validation.source.value
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
        verbose=0,
    )  # fmt: skip
    return perf_counter() - began


def by_tfopt(line: Line, workload: Any, seed: int) -> float:
    """Train the baseline as a run of `tfopt apply` does. Return the seconds."""
    from tfopt_core.training.fit import train

    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter_ns()
        return train(baseline(line, workload, seed, folder), began, lambda _: None).wall_seconds


SIDES = {"fit": by_hand, "tfopt": by_tfopt}


def trained(side: str, line: Line, options: dict[str, Any], seed: int) -> float:
    """Train as one side does, in a process of its own. Return the seconds."""
    import keras

    keras.utils.set_random_seed(seed)
    return SIDES[side](line, line.load(**options), seed)


def order_of(pairs: int) -> list[tuple[str, str]]:
    """Return which side comes first in each pair: each two pairs are ABBA or BAAB, drawn."""
    draw = random.Random(SEED)
    order: list[tuple[str, str]] = []
    while len(order) < pairs:
        first = draw.choice([("fit", "tfopt"), ("tfopt", "fit")])
        order += [first, (first[1], first[0])]
    return order[:pairs]


def trainings(line: Line, options: dict[str, Any], pairs: int) -> dict[str, list[float]]:
    """Return the seconds of each side's whole trainings."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number, pair in enumerate(order_of(pairs)):
        for side in pair:
            seconds[side].append(in_fork(trained, side, line, options, SEED + number))
    return seconds


def row(name: str, part: str, seconds: dict[str, list[float]]) -> str:
    """Return a row of the table."""
    from statistics import median

    from tfopt_core.statistics.intervals import log_ratios, speedup_interval, t_interval

    by_fit, ours = seconds["fit"], seconds["tfopt"]
    ratio, low, high = speedup_interval(t_interval(log_ratios(ours, by_fit), 0.05))
    bar = "no slower" if high <= BAR else "slower" if low > BAR else "not resolved"
    return (
        f"{name:<13}{part:<9}{len(ours):>6}{median(by_fit):>13.4f}{median(ours):>18.4f}  "
        f"{f'{ratio:.3f} ({low:.3f} to {high:.3f})':<25}{bar}"
    )


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--rounds", type=positive, default=40, help="epochs of each side, at least 2"
    )
    parser.add_argument(
        "--pairs", type=positive, default=8, help="trainings of each side, at least 2"
    )
    parser.add_argument("--only", help=f"some of {','.join(LINES)}")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(LINES)
    if unknown := set(names) - set(LINES):
        parser.error(f"--only: {', '.join(sorted(unknown))}: none of {', '.join(LINES)}")
    if min(arguments.rounds, arguments.pairs) < 2:
        parser.error("--rounds and --pairs: at least 2, or there is no interval")
    if arguments.smoke and not arguments.only:
        names = ["mlp", "flights"]
    rounds, pairs = (2, 2) if arguments.smoke else (arguments.rounds, arguments.pairs)
    print(f"{'workload':<13}{'part':<9}{'each':>6}{'fit(x, y) s':>13}{'tfopt baseline s':>18}  "
          f"{'ratio (95%)':<25}bar {BAR}")  # fmt: skip
    for name in names:
        line = attrs.evolve(LINES[name], epochs=2) if arguments.smoke else LINES[name]
        options = line.smoke_options if arguments.smoke else line.options
        print(row(name, "epoch", in_fork(epochs_in_turns, line, options, rounds)), flush=True)
        if arguments.smoke and name != names[0]:
            continue  # one line of each part shows that they run
        print(row(name, "training", trainings(line, options, pairs)), flush=True)


if __name__ == "__main__":
    main()
