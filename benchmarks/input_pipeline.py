"""Measure the cost of the input pipeline for a folder of JPEG files, and the shipped recipe's gain.

    .venv/bin/python benchmarks/input_pipeline.py [--pairs 4] [--examples 800] [--smoke]

Tables: whole trainings with the recipes "jpeg-folder" and "jpeg-folder-bfloat16" against
stock `fit`, on the bundled pictures re-encoded at 1,024 px, for a network of half the channels
(bar: 5x), and as they are (bar: 2x); the wait for input after the first epoch with the latter (bar:
5% of the wall time); frames a second against the rate at which all cores only decode; and the gain
of scaled decoding.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

from measured import applied, in_fork, pairs_of, speedup
from options import make_parser, positive

LARGE_PIXELS, TARGET_PIXELS = 1024, 96
# How often each rate of decoding is measured.
ROUNDS = 3
# To check that it runs; the wait for input is measured after the first of several epochs.
SMOKE_EXAMPLES, SMOKE_PIXELS, SMOKE_EPOCHS, SMOKE_ROUNDS = 40, 256, 2, 1
RECIPE = """
    name = "{name}"
    extends = "{base}"
    [workload]
    {workload}
    epochs = {epochs}
    [workload.options]
    {options}
    [measure]
    pairs = {pairs}
    seconds = "whole"
    attribution = "off"
"""


def enlarged(target: Path, examples: int, pixels: int) -> Path:
    """Write bundled pictures with a shorter side of so many pixels, and return their folder."""
    import tensorflow as tf
    from tfopt_workloads import clipart_jpeg

    for path in _spread(clipart_jpeg.BUNDLED, examples):
        picture = tf.io.decode_jpeg(tf.io.read_file(str(path)), channels=3)
        scale = pixels / min(picture.shape[:2])
        size = [round(side * scale) for side in picture.shape[:2]]
        large = tf.clip_by_value(tf.image.resize(picture, size, "bicubic"), 0, 255)
        file = target / path.parent.name / path.name
        file.parent.mkdir(parents=True, exist_ok=True)
        tf.io.write_file(str(file), tf.io.encode_jpeg(tf.cast(large, "uint8"), quality=95))
    return target


def _spread(folder: Path, examples: int) -> Iterator[Path]:
    """Yield about `examples` files, the same share of each class folder."""
    files = sorted(folder.glob("*/*.jpg"))
    step = max(1, -(-len(files) // examples))
    yield from files[::step]


def training(name: str, bar: float, recipe: str) -> str:
    """Return a row: a whole training with the recipe against stock `fit`."""
    results = applied(recipe)
    both = pairs_of(results)
    stock, stack = ([run["wall_seconds"] for run in side] for side in zip(*both, strict=True))
    quality = results["comparison"]["quality"] or {}
    return (
        f"{name:<12}{mean(stock):9.1f}{mean(stack):9.1f}  {speedup(stock, stack):<21}{bar:>4}x  "
        f"{quality.get('statement', '')}\n{'':12}{results['comparison']['statement']}"
    )


def waiting(epochs: int, examples: int | None) -> tuple[float, float]:
    """Return the seconds waited for input, and those of the steps in all, after the first epoch.

    Each batch is fetched before its step and the wait for it timed; Keras' own loop does both
    inside one call. Prefetching continues meanwhile in both.
    """
    import keras
    import tensorflow as tf

    from tfopt_core.commands.request import make_request
    from tfopt_core.training.build import build, load
    from tfopt_core.training.job import Job
    from tfopt_core.trials.processes import prepare
    from tfopt_core.workers.spawn import SpawnRunner

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pyproject.toml").touch()
        path = folder / "recipe.toml"
        path.write_text('name = "waiting"\nextends = "jpeg-folder-bfloat16"\n')
        few = [] if examples is None else [f"workload.options.examples={examples}"]
        request = make_request(str(path), few, compares=False)[0]
        _, request = prepare(request, SpawnRunner())
        job = Job(recipe=request.recipe, plugins=request.plugins, variant="full", seed=1,
                  machine=request.machine, folder=folder)  # fmt: skip
        built = build(job, load(job))
        model, train = built.model, built.run.datasets["train"]
        step = tf.function(model.train_step, jit_compile=bool(model.jit_compile))
        waits: list[float] = []

        def fetch_then_step(iterator: Any) -> Any:
            begun = perf_counter()
            batch = next(iterator)
            waits.append(perf_counter() - begun)
            return step(batch)

        edges: list[tuple[float, int]] = []
        mark = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda *_: edges.append((perf_counter(), len(waits)))
        )
        model.steps_per_execution = 1
        model.train_function = fetch_then_step
        model.fit(train, epochs=epochs, callbacks=[mark], verbose=0)
        (begun, first), (ended, _) = edges[0], edges[-1]
        return sum(waits[first:]), ended - begun


def decoding(folder: Path, label: str, rounds: int) -> Iterator[str]:
    """Yield rows: frames a second of the pipeline and of decoding alone. There is a row for each
    ratio that still leaves the target's pixels."""
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.glob("*/*.jpg"))]
    contents = [Path(file).read_bytes() for file in files]
    shortest = median(max(tf.io.decode_jpeg(c).shape[:2]) for c in contents[:20])
    cores = len(os.sched_getaffinity(0))

    def frames_a_second(dataset: Any) -> float:
        begun = perf_counter()
        count = sum(1 for _ in dataset.batch(32).prefetch(2)) * 32
        return min(count, len(files)) / (perf_counter() - begun)

    for ratio in (1, 2, 4, 8):
        if shortest / ratio < TARGET_PIXELS:
            continue

        def decode(content: Any, ratio: int = ratio) -> Any:
            return tf.shape(tf.io.decode_jpeg(content, channels=3, ratio=ratio))

        def read_and_resize(file: Any, ratio: int = ratio) -> Any:
            picture = tf.io.decode_jpeg(tf.io.read_file(file), channels=3, ratio=ratio)
            return tf.image.resize(picture, (TARGET_PIXELS, TARGET_PIXELS)) / 255.0

        limit_of = tf.data.Dataset.from_tensor_slices(contents)
        pipeline_of = tf.data.Dataset.from_tensor_slices(files)
        limits, rates, single = [], [], []
        for _ in range(rounds):  # in turn: the machine's speed drifts
            single.append(frames_a_second(pipeline_of.map(read_and_resize)))
            rates.append(frames_a_second(pipeline_of.map(read_and_resize, tf.data.AUTOTUNE)))
            limits.append(frames_a_second(limit_of.map(decode, cores)))
        share = median(r / m for r, m in zip(rates, limits, strict=True))
        yield (
            f"{label:<12}{ratio:>5}{median(single):>12.0f}{median(rates):>11.0f}"
            f"{median(limits):>13.0f}{share:>8.0%}"
        )


def recipes(large: Path, pairs: int, epochs: int) -> list[tuple[str, float, str]]:
    """Return label, bar and recipe of each training.

    :param large: the folder of enlarged pictures.
    """
    small = f'factory = "{Path(__file__).resolve().parent}/networks.py:clipart"'
    return [
        (name, bar, RECIPE.format(name=name, base=base, workload=workload, epochs=epochs,
                                  options=options, pairs=pairs))
        for name, base, bar, workload, options in (
            ("1,024 px", "jpeg-folder", 5.0, small, f'folder = "{large}"'),
            ("as shipped", "jpeg-folder-bfloat16", 2.0, "", ""),
        )
    ]  # fmt: skip


TABLES = ("trainings", "waiting", "decoding")


def main() -> None:
    """Print the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=positive, default=4)
    parser.add_argument("--epochs", type=positive, default=10)
    parser.add_argument("--examples", type=positive, default=800, help="large pictures")
    parser.add_argument("--only", default=",".join(TABLES))
    options = parser.parse_args()
    if options.smoke:
        options.examples, options.epochs = SMOKE_EXAMPLES, SMOKE_EPOCHS
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory() as temporary:
        from tfopt_workloads import clipart_jpeg

        # in a fork, so that no thread of TensorFlow disturbs what is measured
        pixels = SMOKE_PIXELS if options.smoke else LARGE_PIXELS
        large = in_fork(enlarged, Path(temporary) / "large", options.examples, pixels)
        rows = recipes(large, options.pairs, options.epochs)
        rows = rows[:1] if options.smoke else rows
        if "trainings" in options.only:
            print(f"{'pictures':<12}{'stock s':>9}{'stack s':>9}  {'whole (95%)':<21}"
                  f"{'bar':>5}  quality")  # fmt: skip
            for row in rows:
                print(training(*row), flush=True)
        if "waiting" in options.only:
            few = SMOKE_EXAMPLES if options.smoke else None
            waited, seconds = waiting(options.epochs, few)
            print(f"\nwait for input after the first epoch: {waited:.2f} s of {seconds:.2f} s, "
                  f"{waited / seconds:.1%} (bar 5%)", flush=True)  # fmt: skip
        if "decoding" in options.only:
            print(f"\n{'pictures':<12}{'ratio':>5}{'sequential':>12}{'AUTOTUNE':>11}"
                  f"{'decode only':>13}{'share':>8}   frames a second")  # fmt: skip
            folders = ((large, "1,024 px"), (clipart_jpeg.BUNDLED, "as shipped"))
            for folder, label in folders[:1] if options.smoke else folders:
                for line in decoding(folder, label, SMOKE_ROUNDS if options.smoke else ROUNDS):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
