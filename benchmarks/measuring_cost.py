"""Measure what a verdict costs: by new processes, and by forks.

    .venv/bin/python benchmarks/measuring_cost.py [--pairs 4] [--smoke]

The question is whether several steps a call of the train function are faster than one, on the
workload "flights", measured as `tfopt apply` does.

Columns: runs; seconds in all; those of the runs' own training; the mean seconds of a run's process
outside of its training; seconds of measuring for each verdict; and their share of all.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
from pathlib import Path
from time import perf_counter
from typing import Any

from options import make_parser, positive

RECIPE = """
    name = "measuring cost"
    [workload]
    use = "flights"
    epochs = 4
    batch_size = 32
    options = { examples = 40000, prepare = "ahead" }
    [[plugins]]
    use = "steps-per-execution"
    steps = 16
    [measure]
    pairs = %d
    seconds = "whole"
    attribution = "off"
"""
# To check that it runs.
SMOKE_RECIPE = RECIPE.replace("epochs = 4", "epochs = 2").replace("40000", "640")


def request_in(folder: Path, recipe: str, *, compares: bool) -> Any:
    """The request of this recipe, its runs' folders below this one."""
    from tfopt_core.commands.request import make_request

    (folder / "pyproject.toml").touch()
    path = folder / "recipe.toml"
    path.write_text(textwrap.dedent(recipe), encoding="utf-8")
    return make_request(str(path), [], compares=compares)[0]


def by_pairs(name: str, runner: Any, pairs: int, recipe: str = RECIPE) -> str:
    """Return a row: measured as `apply` does, by this runner."""
    from tfopt_core.measurement.session import measure
    from tfopt_core.store.database import Store

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        request = request_in(folder, recipe % pairs, compares=True)
        begun = perf_counter()
        with Store(folder / "runs.sqlite") as store:
            results = measure(request, runner=runner, store=store, observer=lambda event: None)
        took = perf_counter() - begun
    runs = [run for run in results.runs if run.ok]
    training = sum(run.wall_seconds or 0.0 for run in runs)
    beside = sum((run.process_seconds or 0.0) - (run.wall_seconds or 0.0) for run in runs)
    return line(name, len(results.runs), took, training, beside / len(runs), took, 1,
                results.comparison.statement)  # fmt: skip


def line(
    name: str, runs: int, took: float, training: float, beside: float, measuring: float,
    verdicts: int, statement: str,
) -> str:  # fmt: skip
    """Return a row of the table, with the statements below it."""
    per_verdict = f"{measuring / verdicts:13.1f}" if verdicts else f"{'-':>13}"
    share = f"{measuring / took:7.0%}"
    return (
        f"{name:<8}{runs:>5}{took:>8.1f}{training:>10.1f}{beside:>9.2f}{per_verdict}{share}"
        f"\n{textwrap.indent(textwrap.fill(statement, 90), '          ')}"
    )


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=positive, default=4)
    options = parser.parse_args()
    pairs, recipe = options.pairs, SMOKE_RECIPE if options.smoke else RECIPE
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tfopt_core.workers.fork import ForkRunner
    from tfopt_core.workers.spawn import SpawnRunner

    print(f"{'way':<8}{'runs':>5}{'in all':>8}{'training':>10}{'beside':>9}{'per verdict':>13}"
          f"{'share':>7}")  # fmt: skip
    if not options.smoke:  # the same as with forks, plus the imports of TensorFlow
        print(by_pairs("spawn", SpawnRunner(), pairs), flush=True)
    with ForkRunner() as runner:
        print(by_pairs("fork", runner, pairs, recipe), flush=True)


if __name__ == "__main__":
    main()
