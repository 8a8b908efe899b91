"""Measure the recipes that repeat reports, and print the reports' figures beside those found here.

    .venv/bin/python benchmarks/reports.py [NAME ...] [--results FILE.json ...] [--smoke]

Prints a row for each figure: what the report says, and what is found here, with its 95% interval
from pairs of runs. --results reads what `tfopt apply NAME --json FILE` wrote instead of measuring.
It takes about 20 minutes; nothing else should run meanwhile.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from measured import applied, pairs_of
from options import make_parser

from tfopt_core.recipe.shipped import shipped_recipes
from tfopt_core.statistics.intervals import log_ratios, t_interval

Run = dict[str, Any]
Pairs = Sequence[tuple[Run, Run]]
LEVEL = 0.05
CHEAPEST = "report-mixed-precision-cache"
# Two of the classes, since the validation data of all would take most of a run.
SMOKE = {"epochs": 2, "options.examples": 64, "options.classes": 2}


@attrs.frozen
class Figure:
    """One figure of a report, and how it is found here.

    :param name: what is compared.
    :param report: what the report says.
    :param found: from the pairs of runs to what is printed.
    """

    name: str
    report: str
    found: Callable[[Pairs], str]


def change(value: Callable[[Run], float]) -> Callable[[Pairs], str]:
    """Return a figure of the form `-7.9% (-9.0% to -6.8%)`: how a value of a run changes."""

    def found(pairs: Pairs) -> str:
        before = [value(base) for base, _ in pairs]
        after = [value(full) for _, full in pairs]
        interval = t_interval(log_ratios(after, before), LEVEL)
        mean, low, high = (math.expm1(x) for x in (interval.mean, interval.low, interval.high))
        return f"{mean:+.1%} ({low:+.1%} to {high:+.1%})"

    return found


def wall_seconds(run: Run) -> float:
    """Return the seconds of the whole training, projected where it was cut short."""
    return float(run["fits"][-1]["projected_seconds"] or run["wall_seconds"])


def spread(run: Run) -> float:
    """Return the standard deviation of the validation loss, penalties left out, over the epochs
    after the first: as tfopt's own observation has it."""
    losses: list[float] = run["fits"][-1]["history"]["val_data_loss"][1:]
    return statistics.stdev(losses)


def parameters(pairs: Pairs) -> str:
    """Return the trainable parameters of both sides, the same in each run."""
    base, full = (run["fits"][-1]["trainable_parameters"] for run in pairs[0])
    return f"{base / 1e6:.2f} -> {full / 1e6:.2f} million trainable"


def epochs_to_level(pairs: Pairs) -> str:
    """Return how many epochs fewer the stack takes to the baseline's last validation loss."""
    planned, needed = 0, []
    for base, full in pairs:
        before, after = (run["fits"][-1]["history"]["val_data_loss"] for run in (base, full))
        planned = len(before)
        reached = (epoch for epoch, loss in enumerate(after, 1) if loss <= before[-1])
        needed.append(next(reached, None))
    never = needed.count(None)
    if never:
        return f"level of epoch {planned} never reached in {never} of {len(needed)} runs"
    interval = t_interval([float(epoch) for epoch in needed if epoch], LEVEL)
    return (
        f"level of epoch {planned} reached at epoch {interval.mean:.1f} "
        f"({interval.low:.1f} to {interval.high:.1f})"
    )


TIME = change(wall_seconds)
REPORTS: Mapping[str, tuple[Figure, ...]] = {
    "report-l2-subset": (
        Figure("parameters", "7.3 -> 6.1 million", parameters),
        Figure("time of the training", "-7.9%", TIME),
        Figure("spread of the validation loss", "stable with L2", change(spread)),
        Figure("epochs", "level of epoch 16 reached at epoch 10", epochs_to_level),
    ),
    "report-mixed-precision-cache": (
        Figure("time of the training", "-17.5% (652 s -> 538 s)", TIME),
    ),
}


def measured(name: str, smoke: bool) -> dict[str, Any]:
    """Return the results of the recipe, measured now."""
    text = shipped_recipes()[name].read_text(encoding="utf-8")
    options: tuple[str, ...] = ()
    if smoke:
        sets = [f"workload.{key}={value}" for key, value in SMOKE.items()]
        options = tuple(
            part for one in [*sets, "measure.attribution=off"] for part in ("--set", one)
        )
    return applied(text, *options)


def isolated(results: Mapping[str, Any]) -> list[str]:
    """Return a line for each plugin that the measurement isolates."""
    return [
        f"  {one['plugin']:<33} {'not isolated':<39} {one['statement']}"
        for one in results["attribution"]
    ]


def table(name: str, results: Mapping[str, Any]) -> list[str]:
    """Return the lines of a report: a heading, and a row for each figure."""
    pairs = pairs_of(dict(results))
    lines = [f"{name}: {len(pairs)} pairs of runs", f"  {'':<33} {'the report':<39} found here"]
    for figure in REPORTS[name]:
        lines.append(f"  {figure.name:<33} {figure.report:<39} {figure.found(pairs)}")
    lines += isolated(results)
    return [*lines, f"  tfopt's verdict: {results['comparison']['statement']}"]


def main() -> None:
    """Print the table of each report."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(REPORTS))
    parser.add_argument("--results", nargs="*", type=Path, default=[], metavar="FILE.json")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(REPORTS)
    if unknown:
        parser.error(f"no report {', '.join(sorted(unknown))}; there are {', '.join(REPORTS)}")
    for path in arguments.results:
        results = json.loads(path.read_text(encoding="utf-8"))
        print(*table(results["recipe"], results), sep="\n", flush=True)
    if not arguments.results:
        # the small network only: EfficientNet takes minutes, however few its steps are
        names = [CHEAPEST] if arguments.smoke else arguments.names or list(REPORTS)
        for name in names:
            print(*table(name, measured(name, arguments.smoke)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
