"""Do the bounds of `tfopt diagnose` hold? Each shipped workload is diagnosed, then stacks for input,
loop and compute are measured, and each gain is held against the bound for what its plugins target.

    python benchmarks/diagnose_bounds.py [--workload NAME ...] [--rounds 3]

A gain is that of a steady step: the median over rounds of the baseline's step time over the stack's.
Runs are cut short once their step time is known. Ends with status 1 if a gain exceeds its bound by more
than 10%. Takes about two minutes a workload; run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TOLERANCE = 0.10
# What a careful user would try for each part of a step; what is not installed is left out.
STACKS: dict[str, tuple[str, ...]] = {
    "input": ("cache", "parallel-map", "prefetch"),
    "loop": ("steps-per-execution",),
    "loop and XLA": ("chunked",),
    "compute": ("mixed-precision",),
}
RECIPE = """
name = "bounds"
[workload]
use = "{workload}"
epochs = 30
"""


def diagnosed(recipe: Path) -> dict[str, Any]:
    """What `tfopt diagnose --json` says of the recipe's baseline."""
    out = recipe.with_suffix(".json")
    command = [
        sys.executable,
        "-m",
        "tfopt_core",
        "diagnose",
        str(recipe),
        "--quiet",
        "--json",
        str(out),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return dict(json.loads(out.read_text(encoding="utf-8")))


def bound(found: Mapping[str, Any], targets: Sequence[str]) -> float:
    """The bound for plugins with these targets, as a plugin would be told it."""
    from tfopt_core import Diagnosis, read_machine

    figures = {name: found[name] for name in (
        "epochs", "steps_per_epoch", "batch_size", "examples", "step_seconds", "data_seconds",
        "dispatch_known", "example_bytes", "available_memory_bytes", "trainable_parameters",
        "policy", "jit_compile", "supports_jit",
    )}  # fmt: skip
    parts = {f"{name}_seconds": found[name]["seconds"] for name in ("input", "dispatch", "compute")}
    return Diagnosis(machine=read_machine(), **figures, **parts).bound(targets)


def targets_of(plugins: Sequence[str]) -> tuple[str, ...]:
    """All that these plugins target."""
    from tfopt_core.hooks.card import traits
    from tfopt_core.hooks.discovery import find, registrations

    known = registrations()
    found: dict[str, None] = {}
    for name in plugins:
        found.update(dict.fromkeys(traits(name, find(name, known).load()).targets))
    return tuple(found)


def stack_requests(folder: Path, workload: str, runner: Any) -> dict[str, Any]:
    """A request for the baseline and for each stack that can be built here, its settings resolved."""
    from tfopt_core.cli.request import make_request
    from tfopt_core.errors import TfoptError
    from tfopt_core.hooks.discovery import registrations
    from tfopt_core.measure.request import prepare

    known = registrations()
    requests: dict[str, Any] = {}
    for name, plugins in {"baseline": (), **STACKS}.items():
        named = [plugin for plugin in plugins if plugin in known]
        if plugins and not named:
            continue
        path = folder / f"{name.replace(' ', '-')}.toml"
        tables = "".join(f'[[plugins]]\nuse = "{plugin}"\n' for plugin in named)
        path.write_text(RECIPE.format(workload=workload) + tables, encoding="utf-8")
        try:
            request = make_request(str(path), [], compares=False)[0]
            requests[name] = prepare(request, runner)[1]
        except TfoptError as error:
            print(f"  {name:<14} not measured: {str(error).splitlines()[0]}", flush=True)
    return requests


def step_seconds(
    requests: Mapping[str, Any], runner: Any, rounds: int
) -> dict[str, list[float | None]]:
    """Seconds of a steady step by request, one figure a round; None for a run that failed."""
    from tfopt_core.measure.project import mean_warm_step
    from tfopt_core.measure.request import processes_of
    from tfopt_core.measure.schedule import Turn, Variant

    seconds: dict[str, list[float | None]] = {name: [] for name in requests}
    for round_ in range(rounds):
        order = list(requests)
        for position, name in enumerate(order if round_ % 2 == 0 else order[::-1]):
            request = requests[name]
            turn = Turn(round_, position, Variant(name, request.plugins), round_ + 1)
            run = processes_of(request, runner).run(
                turn, request.folder.name, lambda message: None, stop_when_steady=True
            )
            if not run.ok:
                print(f"  {name}: {run.error}", flush=True)
                seconds[name].append(None)
                continue
            fit = run.fit
            seconds[name].append(fit.step_seconds if fit.steady else mean_warm_step(fit.blocks))
    return seconds


def compare(workload: str, rounds: int) -> bool:
    """Diagnose a workload, measure its stacks, print a line for each; whether all bounds held."""
    from tfopt_core.measure.fork import ForkRunner
    from tfopt_core.measure.isolate import SpawnRunner

    held = True
    with tempfile.TemporaryDirectory(prefix="tfopt-bounds-") as temporary:
        folder = Path(temporary)
        (folder / "pyproject.toml").touch()  # results are kept in here
        recipe = folder / "recipe.toml"
        recipe.write_text(RECIPE.format(workload=workload), encoding="utf-8")
        found = diagnosed(recipe)
        shares = ", ".join(
            f"{part} {found[part]['share']:.0%}" for part in ("input", "dispatch", "compute")
        )
        print(f"{workload}: {found['step_seconds'] * 1e3:.3g} ms a step: {shares}", flush=True)
        requests = stack_requests(folder, workload, SpawnRunner())
        with ForkRunner() as runner:
            seconds = step_seconds(requests, runner, rounds)
        for name in requests:
            if name == "baseline":
                continue
            ratios = [
                b / s for b, s in zip(seconds["baseline"], seconds[name], strict=True) if b and s
            ]
            if not ratios:
                continue
            targets = targets_of([plugin.name for plugin in requests[name].plugins])
            gain, most = statistics.median(ratios), bound(found, targets)
            fine = gain <= most * (1 + TOLERANCE)
            held = held and fine
            said = "holds" if fine else "EXCEEDED"
            print(f"  {name:<14}{gain:6.2f}x  of at most {most:8.2f}x  {said}  "
                  f"(rounds {', '.join(f'{ratio:.2f}' for ratio in ratios)})", flush=True)  # fmt: skip
    return held


def main() -> int:
    """Print the table; 1 if a bound was exceeded."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tfopt_core.hooks.discovery import registrations

    shipped = [name for name, found in registrations("tfopt.workloads").items()
               if found[0].distribution == "tfopt"]  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", action="append", choices=shipped)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    results = [compare(workload, arguments.rounds) for workload in arguments.workload or shipped]
    print("all bounds hold" if all(results) else "a bound was exceeded")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
