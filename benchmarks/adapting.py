"""Does `tfopt train --adapt` keep a loop that is as fast as the best fixed one?

    .venv/bin/python benchmarks/adapting.py [--only mlp,cnn,lstm] [--seconds 2] [--smoke]

For each model: a training that adapts, then every fixed loop and the kept one, timed in turns
within one process (each for about `--seconds`). The bar is 5% of the best.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import attrs
import networks
from options import make_parser

if TYPE_CHECKING:
    from tfopt_core.records.messages import Progress

MODELS: dict[str, tuple[Any, int, int]] = {
    "mlp": (networks.mlp, 32, 40),
    "cnn": (networks.cnn, 32, 12),
    "lstm": (None, 64, 5),
}
# XLA's convolutions would take minutes here, and are never the best on a CPU.
WITHOUT_XLA = ("cnn",)
BAR = 1.05
# Few examples, little time for each loop and few loops, to check that it runs.
SMOKE_EXAMPLES, SMOKE_SECONDS, SMOKE_STEPS = 640, 0.01, (1, 4)


def built_here(name: str, folder: Path, smoke: bool) -> Any:
    """Return the baseline's training, built in this process."""
    from tfopt_core.hooks import read_machine
    from tfopt_core.recipe import read_recipe
    from tfopt_core.training.build import build
    from tfopt_core.training.job import Job

    factory, batch_size, epochs = MODELS[name]
    options = {"examples": SMOKE_EXAMPLES} if smoke else {}
    epochs = 1 if smoke else epochs
    if factory is None:
        from tfopt_workloads import weather

        factory = weather.build
    path = folder / "recipe.toml"
    path.write_text(f'name = "{name}"\n[workload]\nuse = "flights"\nepochs = {epochs}\n'
                    f"batch_size = {batch_size}\n")  # fmt: skip
    job = Job(recipe=read_recipe(path).require(), plugins=(), variant="full", seed=1,
              machine=read_machine(), folder=folder)  # fmt: skip
    return build(job, attrs.evolve(factory(**options), validation=None))


def line(name: str, seconds: float, smoke: bool = False) -> str:
    """Return the row of one model: the loop that was kept, and its distance from the best."""
    from tfopt_core.records.in_run import Adapted
    from tfopt_core.training.fit import train
    from tfopt_core.training.loops.exact_loops import Loop
    from tfopt_core.trials.explore import Explorer
    from tfopt_core.trials.loop_timing import time_loops

    messages: list[Progress] = []
    with tempfile.TemporaryDirectory() as folder:
        built = built_here(name, Path(folder), smoke)
        train(built, perf_counter_ns(), messages.append,
              adapt=lambda offer, sync: Explorer(offer, sync, seed=1))  # fmt: skip
        [adapted] = [message for message in messages if isinstance(message, Adapted)]
        several = SMOKE_STEPS if smoke else (1, 4, 16, 64)
        fixed = [Loop(steps, False, kind) for kind in ("keras", "chunked") for steps in several]
        if name not in WITHOUT_XLA and not smoke:
            fixed += [Loop(1, True), *(Loop(steps, True, "chunked") for steps in (4, 16, 64))]
        times = {one.loop.name: one.step_seconds for one in time_loops(built, fixed, seconds)}
    kept, best = adapted.kept, min(times, key=lambda name: times[name])
    ratio = times[kept] / times[best]
    shown = "".join(f"{times[name] * 1e3:9.3f}" for name in ("1 step a call", best, kept))
    return (
        f"{name:<6}{shown}{ratio:>7.2f}  {'met' if ratio <= BAR else 'MISSED':<7} kept {kept}; "
        f"best {best}; compared for {adapted.seconds:.1f} s"
    )


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    if options.smoke:
        options.only, options.seconds = "mlp", SMOKE_SECONDS
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    print(f"{'model':<6}{'stock ms':>9}{'best ms':>9}{'kept ms':>9}{'ratio':>7}  bar 1.05")
    for name in options.only.split(","):
        print(line(name, options.seconds, options.smoke), flush=True)


if __name__ == "__main__":
    main()
