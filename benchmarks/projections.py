"""How close the projected total of a training that is cut short comes to the whole training's.

    .venv/bin/python benchmarks/projections.py [--pairs 4] [--only NAME] [--smoke]

Baselines of shipped workloads, trained to the end and cut as `length = "steady"` cuts them, in
processes of their own that take turns (ABBA or BAAB, drawn); both of a pair share a seed. Printed
is projected / whole with its 95% interval over the pairs; 1.00 is right.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import attrs
from options import make_parser

from tfopt_core.hooks import read_machine
from tfopt_core.measure.cutting import LONGEST_SECONDS
from tfopt_core.measure.figures import total_seconds
from tfopt_core.measure.fork import ForkRunner
from tfopt_core.measure.request import Request, processes_of
from tfopt_core.measure.schedule import BASELINE, Schedule, Variant
from tfopt_core.measure.statistics import log_ratios, median, speedup_interval, t_interval
from tfopt_core.recipe import Recipe, WorkloadSpec
from tfopt_core.store.results import RunResult

PAIRS, SMOKE_PAIRS = 4, 2
# Epochs by workload: long enough that a run is cut before its end.
EPOCHS = {"flights": 30, "weather": 10, "stdlib-text": 6}
SMOKE = {"weather": 2}
# Features are computed before the training, as a careful user would.
OPTIONS = {"flights": {"prepare": "ahead"}}


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__ or "")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", choices=EPOCHS)
    asked = parser.parse_args()
    epochs = SMOKE if asked.smoke else EPOCHS
    if asked.only:
        epochs = {asked.only: EPOCHS[asked.only]}
    pairs = SMOKE_PAIRS if asked.smoke else asked.pairs
    print(f"{'workload':14} {'epochs':>6} {'whole':>8} {'projected':>9} {'cut after':>9}  ratio")
    with ForkRunner() as runner:
        for name, count in epochs.items():
            print(row(name, count, both(name, count, pairs, runner)), flush=True)


def both(name: str, epochs: int, pairs: int, runner: ForkRunner) -> list[list[RunResult]]:
    """Runs that were trained to the end, and runs that were cut short.

    :raises SystemExit: if a run fails, with its cause.
    """
    runs: list[list[RunResult]] = [[], []]
    variants = Variant("whole", ()), Variant("cut", ())
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe(name=name, workload=WorkloadSpec(
            use=name, epochs=epochs, options=OPTIONS.get(name, {})
        ))  # fmt: skip
        request = Request(
            recipe=recipe, plugins=(), machine=read_machine(), folder=Path(folder) / "runs",
            environment=os.environ,
        )  # fmt: skip
        for round_ in range(pairs):
            for turn in Schedule(1).turns(round_, variants):
                cut = turn.variant is variants[1]
                run = processes_of(request, runner).run(
                    attrs.evolve(turn, variant=Variant(BASELINE, ())), turn.variant.name,
                    lambda message: None, longest_seconds=LONGEST_SECONDS if cut else None,
                )  # fmt: skip
                if not run.ok:
                    raise SystemExit(f"{name}: {run.error}")
                runs[cut].append(run)
    return runs


def row(name: str, epochs: int, runs: list[list[RunResult]]) -> str:
    """A workload's line of the table; of runs that were not cut it says so."""
    whole, cut = runs
    if any(run.complete for run in cut):
        return f"{name:14} {epochs:6} trained to its end before its step time was known"
    sides = [[total_seconds(run) for run in side] for side in (cut, whole)]
    ratio, low, high = speedup_interval(t_interval(log_ratios(*sides), 0.05))
    stopped = median([run.wall_seconds or 0.0 for run in cut])
    return (
        f"{name:14} {epochs:6} {median(sides[1]):7.1f}s {median(sides[0]):8.1f}s {stopped:8.1f}s  "
        f"{ratio:.3f} ({low:.3f} to {high:.3f}, {len(whole)} pairs)"
    )


if __name__ == "__main__":
    main()
