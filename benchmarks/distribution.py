"""Measure what a strategy costs a step against one device, and how that grows with the devices.

All trainings have the same global batch, so each of n replicas computes one n-th of it. They share
the cores of this machine, so the overhead of distributing is measured, not a gain.

    python benchmarks/distribution.py [--rounds 3] [--network mlp] [--smoke]

Prints a table: milliseconds a steady step, the overhead against one device, and what summing the
gradients takes alone; medians over the rounds, in each of which every training runs once, in an
order drawn anew.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

from options import make_parser, positive

from tfopt_core.commands.request import make_request
from tfopt_core.statistics.runs import FULL, FitResult
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import ScheduledRun, Variant
from tfopt_core.workers.local_cluster import LocalCluster
from tfopt_core.workers.spawn import SpawnRunner

NETWORKS = Path(__file__).with_name("networks.py").resolve()
BATCH, EXAMPLES, EPOCHS = 128, 4_096, 4
# To check that it runs.
SMOKE_EXAMPLES, SMOKE_EPOCHS = 512, 2

RECIPE = """
name = "distribution"
[workload]
factory = "{networks}:{network}"
epochs = {epochs}
batch_size = {batch}
options = {{ examples = {examples} }}
{plugin}
[measure]
target = {{ metric = "val_accuracy", at_least = 0.1 }}
"""

ONE = "one device, no strategy"
STRATEGIES = {
    ONE: "",
    "one-device": 'use = "one-device"',
    "mirrored, 2 devices": 'use = "mirrored"\nlogical_cpu_devices = 2',
    "mirrored, 4 devices": 'use = "mirrored"\nlogical_cpu_devices = 4',
    "multi-worker, 1 worker": 'use = "multi-worker"\nworkers = 1',
    "multi-worker, 2 workers": 'use = "multi-worker"\nworkers = 2',
    "multi-worker, 4 workers": 'use = "multi-worker"\nworkers = 4',
    "parameter-server, 1 + 1": 'use = "parameter-server"\nworkers = 1',
    "parameter-server, 2 + 1": 'use = "parameter-server"\nworkers = 2',
}
SMOKE_STRATEGIES = (ONE, "multi-worker, 2 workers")


def main() -> None:
    """Train with every strategy in turn, and print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--network", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--steps", type=positive, default=1, help="steps a call, where possible")
    options = parser.parse_args()
    strategies = list(STRATEGIES)
    if options.smoke:
        options.rounds, strategies = 1, list(SMOKE_STRATEGIES)
    fits: dict[str, list[FitResult]] = {name: [] for name in strategies}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for name in random.sample(strategies, len(strategies)):
                fits[name].append(trained(Path(folder), name, number, options))
                print(f"round {number + 1}: {name}", file=sys.stderr)
    print_table(fits, options.network)


def recipe_text(name: str, options: argparse.Namespace) -> str:
    """Return the recipe of a training with this strategy."""
    plugins = [STRATEGIES[name]] if STRATEGIES[name] else ['use = "prefetch"\nbuffer_size = 1']
    if options.steps > 1:
        plugins.append(f'use = "steps-per-execution"\nsteps = {options.steps}')
    return RECIPE.format(
        networks=NETWORKS, network=options.network, batch=BATCH,
        epochs=SMOKE_EPOCHS if options.smoke else EPOCHS,
        examples=SMOKE_EXAMPLES if options.smoke else EXAMPLES,
        plugin="\n".join(f"[[plugins]]\n{plugin}" for plugin in plugins),
    )  # fmt: skip


def trained(folder: Path, name: str, number: int, options: argparse.Namespace) -> FitResult:
    """Train once with this strategy, with all its processes started here. Return the fit.

    :raises SystemExit: if it fails.
    """
    place = folder / f"{list(STRATEGIES).index(name)}-{number}"
    place.mkdir()
    (place / "pyproject.toml").touch()
    recipe = place / "recipe.toml"
    recipe.write_text(recipe_text(name, options), encoding="utf-8")
    request, _ = make_request(str(recipe), [], compares=False)
    runner = LocalCluster(spawn=SpawnRunner())
    processes: Processes = Processes(request, runner)
    # a recipe must have a plugin, and one device needs none
    stack = tuple(p for p in request.plugins if p.name != "prefetch")
    scheduled = ScheduledRun(0, 0, Variant(FULL, stack), 1 + number)
    run = processes.run(scheduled, "run", lambda message: None)
    if not run.ok:
        sys.exit(f"{name} failed: {run.error}\n{run.output_tail}")
    return run.fit


def warm_seconds(fit: FitResult) -> float:
    """Return the mean seconds of a step from the second epoch on."""
    blocks = [block for block in fit.blocks if block.epoch >= 1 and not block.cold]
    return sum(b.seconds for b in blocks) / sum(b.steps for b in blocks)


def print_table(fits: dict[str, list[FitResult]], network: str) -> None:
    """Print a row for each strategy."""
    print(f"{network}, global batch {BATCH}, {len(fits[ONE])} rounds; milliseconds a step")
    print(f"{'strategy':26}{'replicas':>9}{'step':>9}{'overhead':>10}")
    for name, of_strategy in fits.items():
        steps = [1e3 * warm_seconds(fit) for fit in of_strategy]
        # compare within a round, where the machine's state is most alike
        over = [
            1e3 * (warm_seconds(fit) - warm_seconds(alone))
            for fit, alone in zip(of_strategy, fits[ONE], strict=True)
        ]
        overhead = "" if name == ONE else f"{median(over):+.2f}"
        first = of_strategy[0]
        replicas = first.replicas if first.workers == 1 else first.workers
        print(f"{name:26}{replicas:>9}{median(steps):>9.2f}{overhead:>10}")


if __name__ == "__main__":
    main()
