"""Compare a recipe's stack to stock `fit` and to what is possible: the same on ready data.

    .venv/bin/python benchmarks/possible.py [--rounds 8] [--only generator] [--smoke]

A plugin that computes something once can gain no more than a training for which that was computed
beforehand. `READY` names for each recipe the plugin that computes, and the workload on ready data:

    transfer-learning      frozen-features  the head of the model alone, on arrays of features
    generator              materialize      arrays of the examples that the PyDataset computes
    tabular-preprocessing  cache            the rows that the FeatureSpace makes, as arrays

A round trains stock (no plugin), with the stack, and what is possible (ready data, and the stack
without that plugin), each once, in an order drawn anew, in a process of its own and under the same
seed. A training counts from the start of the model's building to the end of `fit`; making data
ready is not in what is possible. It is made ready in each round too, by the plain code that a user
would write, since the first training of all must: "made ready" is what is possible with that time
added. "epoch" is the median epoch from the second one on, with its validation.

Gains are ratios of times with their 95% intervals over rounds. "stack reaches" is the stack's gain
as a share of this side's, which is the ratio of their times. The bar is 85% of what is possible.

On two cores of an AMD EPYC, beside other work, eight rounds:

    recipe             of        gain of the stack     of what is possible
    transfer-learning  training  5.19x (4.69-5.74)     47% (43%-53%)
    transfer-learning  epoch     25.31x (21.48-29.83)  146% (121%-177%)
    generator          training  6.84x (6.12-7.64)     76% (70%-83%)
    generator          epoch     15.93x (13.08-19.40)  105% (91%-120%)

A short training falls short as a whole: the stack also builds the frozen network and computes its
features once. With that time added ("made ready") it reaches 131% (108%-159%).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

import attrs
from measured import in_fork, speedup
from options import make_parser, positive

SEED = 1
BATCH_SIZE, TABLE_BATCH = 32, 128
SIDES = ("stock", "stack", "possible")
# In the rows only: what is possible, with the time of making the data ready.
MADE_READY = "made ready"
# The seconds of a training, and of its median epoch behind the first.
Seconds = tuple[float, float]


@attrs.frozen
class Ready:
    """What a recipe's training can be at best.

    :param plugin: the plugin that computes what is ready here.
    :param arrays: returns the arrays of a workload by name; called once, in a process of its own.
    :param workload: returns the workload on these arrays.
    :param smoke: an override that makes the recipe's workload small.
    """

    plugin: str
    arrays: Callable[[Any], dict[str, Any]]
    workload: Callable[[Any, dict[str, Any]], Any]
    smoke: str


def pooled_features(workload: Any) -> dict[str, Any]:
    """Return what the frozen layers make of all pictures, with the labels."""
    import keras
    import numpy as np

    from tfopt_core.data import lower_plan

    whole = workload.build_model()
    *_, pooled, _, _ = whole.layers
    frozen = keras.Model(whole.input, pooled.output)
    arrays = {}
    for split, plan in (("train", workload.train), ("validation", workload.validation)):
        batches = lower_plan(plan.batch(BATCH_SIZE))
        arrays[f"{split}_x"] = frozen.predict(batches, verbose=0)
        arrays[f"{split}_y"] = np.concatenate([y for _, y in batches.as_numpy_iterator()])
    return arrays


def head_alone(workload: Any, arrays: dict[str, Any]) -> Any:
    """Return the workload of the layers behind the pooling, over the features."""
    classes = int(arrays["train_y"].max()) + 1

    def build_model() -> Any:
        import keras
        from keras import layers

        features = keras.Input(arrays["train_x"].shape[1:])
        hidden = layers.Dropout(0.2)(features)
        return keras.Model(features, layers.Dense(classes)(hidden))

    return attrs.evolve(over_arrays(workload, arrays), build_model=build_model)


def examples(workload: Any) -> dict[str, Any]:
    """Return all examples that the workload computes in an epoch, of PyDatasets or of tf.data."""
    import keras
    import numpy as np

    arrays = {}
    for split, data in (("train", workload.train), ("validation", workload.validation)):
        of_keras = isinstance(data, keras.utils.PyDataset)
        batches = [data[number] for number in range(data.num_batches)] if of_keras else list(data)
        for part, name in enumerate("xy"):
            arrays[f"{split}_{name}"] = np.concatenate([batch[part] for batch in batches])
    return arrays


def over_arrays(workload: Any, arrays: dict[str, Any]) -> Any:
    """Return the workload with arrays in the place of its data."""
    return attrs.evolve(
        workload,
        train=(arrays["train_x"], arrays["train_y"]),
        validation=(arrays["validation_x"], arrays["validation_y"]),
    )


def over_rows(workload: Any, arrays: dict[str, Any]) -> Any:
    """Return the workload with rows in the place of the batches that are encoded."""
    from tfopt_core import DataPlan

    train = DataPlan.from_arrays(arrays["train_x"], arrays["train_y"])
    validation = DataPlan.from_arrays(arrays["validation_x"], arrays["validation_y"])
    return attrs.evolve(
        workload,
        train=train.shuffle(train.examples).batch(TABLE_BATCH).prefetch(),
        validation=validation.batch(TABLE_BATCH).prefetch(),
    )


READY = {
    "transfer-learning": Ready(
        "frozen-features", pooled_features, head_alone, "workload.options.examples=40"
    ),
    "generator": Ready("materialize", examples, over_arrays, "workload.options.examples=320"),
    "tabular-preprocessing": Ready("cache", examples, over_rows, "workload.options.examples=2000"),
}


def load(request: Any, seed: int) -> Any:
    """Return the recipe's workload under this seed."""
    import keras

    from tfopt_core.training.factory import load_workload

    keras.utils.set_random_seed(seed)
    return load_workload(request.recipe)


def make_ready(ready: Ready, request: Any, file: Path) -> float:
    """Write the ready arrays of the recipe's workload to a file. Return the seconds it took."""
    import numpy as np

    workload = load(request, SEED)
    began = perf_counter()
    arrays = ready.arrays(workload)
    seconds = perf_counter() - began
    np.savez(file, **arrays)
    return seconds


def train_once(side: str, ready: Ready, request: Any, file: Path, seed: int) -> Seconds:
    """Train one side as a run of `tfopt apply` does. Return its seconds."""
    import numpy as np

    from tfopt_core.training.build import build
    from tfopt_core.training.fit import train
    from tfopt_core.training.job import Job

    workload, plugins = load(request, seed), request.plugins if side != "stock" else ()
    if side == "possible":
        with np.load(file) as arrays:
            workload = ready.workload(workload, dict(arrays))
        plugins = tuple(one for one in plugins if one.name != ready.plugin)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(recipe=request.recipe, plugins=plugins, variant=side, seed=seed,
                  machine=request.machine, folder=Path(folder))  # fmt: skip
        began = perf_counter_ns()
        done = train(build(job, workload), began, lambda _: None)
    ends = pairwise(done.epoch_end_seconds)
    return done.wall_seconds, median([end - begin for begin, end in ends])


def in_rounds(
    ready: Ready, request: Any, file: Path, rounds: int
) -> dict[str, list[Seconds]]:  # fmt: skip
    """Return what each side's trainings took, a figure for each round."""
    draw = random.Random(SEED)
    seconds: dict[str, list[Seconds]] = {side: [] for side in (*SIDES, MADE_READY)}
    for number in range(rounds):
        making = 0.0
        for side in draw.sample((*SIDES, MADE_READY), k=len(SIDES) + 1):
            if side == MADE_READY:
                making = in_fork(make_ready, ready, request, file)
            else:
                seconds[side].append(in_fork(train_once, side, ready, request, file, SEED + number))
        whole, epoch = seconds["possible"][-1]
        seconds[MADE_READY].append((making + whole, epoch))
    return seconds


def rows(name: str, seconds: dict[str, list[Seconds]]) -> list[str]:
    """Return the rows of a recipe: one of each side for the training, and one for the epoch."""
    from tfopt_core.statistics.intervals import log_ratios, speedup_interval, t_interval

    lines = []
    for part, what in enumerate(("training", "epoch")):
        by_side = {side: [both[part] for both in seconds[side]] for side in seconds}
        if what == "epoch":
            del by_side[MADE_READY]  # its epochs are those of what is possible
        for side, ours in by_side.items():
            gain = "" if side == "stock" else speedup(by_side["stock"], ours)
            share = ""
            if side in ("possible", MADE_READY):
                ratio = log_ratios(ours, by_side["stack"])
                share = "{:.0%} ({:.0%}-{:.0%})".format(*speedup_interval(t_interval(ratio, 0.05)))
            lines.append(
                f"{name:<22}{what:<10}{side:<11}{median(ours):>9.3f}  {gain:<22}{share}".rstrip()
            )
    return lines


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--rounds", type=positive, default=8, help="trainings of each side, at least 2"
    )
    parser.add_argument("--only", default=",".join(READY))
    options = parser.parse_args()
    if unknown := set(options.only.split(",")) - set(READY):
        parser.error(f"--only: {', '.join(sorted(unknown))}: none of {', '.join(READY)}")
    if options.rounds < 2:
        parser.error("--rounds: at least 2, or there is no interval")
    from tfopt_core.commands.request import make_request
    from tfopt_core.trials.processes import prepare
    from tfopt_core.workers.spawn import SpawnRunner

    rounds = 2 if options.smoke else options.rounds
    print(f"{'recipe':<22}{'of':<10}{'side':<11}{'seconds':>9}  {'gain (95%)':<22}stack reaches")
    chosen = options.only.split(",")
    for name in chosen[-1:] if options.smoke else chosen:
        ready = READY[name]
        small = ["workload.epochs=2", ready.smoke] if options.smoke else []
        request = make_request(name, small, compares=True, keeps=False)[0]
        _, request = prepare(request, SpawnRunner())
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ready.npz"
            in_fork(make_ready, ready, request, file)  # for the sides that a round draws first
            for line in rows(name, in_rounds(ready, request, file, rounds)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
