"""Do the bounds of `tfopt diagnose` hold?

    python benchmarks/diagnose_bounds.py [--workload NAME ...] [--rounds 3] [--smoke]

Each shipped workload is diagnosed. Then a stack for input, one for the loop and one for compute are
measured, and each gain is compared with the bound for that part of a step. The gain is the median
over rounds of the baseline's time of a steady step over the stack's; runs are cut short once their
step time is known. Ends with status 1 if a gain exceeds its bound by more than 10%, or could not be
measured. Takes about two minutes a workload; run it on an idle machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from options import make_parser, positive

TOLERANCE = 0.10
# The plugins that a careful user would try for each part of a step, with settings, so that none has
# to be resolved. Of several tables in a list the first whose plugin is installed is used.
STACKS: dict[str, list[str]] = {
    "input": [
        '[[plugins]]\nuse = "cache"\nstorage = "memory"\n[[plugins]]\nuse = "parallel-map"\n'
        '[[plugins]]\nuse = "prefetch"\n'
    ],
    "dispatch": [
        '[[plugins]]\nuse = "chunked"\nsteps = 16\nxla = false\n',
        '[[plugins]]\nuse = "steps-per-execution"\nsteps = 16\n',
    ],
    "compute": ['[[plugins]]\nuse = "mixed-precision"\n'],
}
RECIPE = """
name = "bounds"
[workload]
use = "{workload}"
epochs = {epochs}
"""
EPOCHS = 30
RUN_SECONDS = 20.0
# To check that it runs: one part of a step, and few data.
SMOKE_WORKLOAD, SMOKE_STACK = "flights", "dispatch"
SMOKE_OPTIONS = '[workload.options]\nexamples = 640\nprepare = "ahead"\n'
SMOKE_EPOCHS = 2


def diagnosed(recipe: Path) -> dict[str, Any]:
    """Return the JSON of `tfopt diagnose` for the recipe's baseline."""
    out = recipe.with_suffix(".json")
    subprocess.run(
        [sys.executable, "-m", "tfopt_core", "diagnose", recipe, "--quiet", "--json", out],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return dict(json.loads(out.read_text(encoding="utf-8")))


def stack_requests(folder: Path, workload: str, smoke: bool) -> dict[str, Any]:
    """A request for the baseline, and for a stack for each part of a step."""
    from tfopt_core.commands.request import make_request
    from tfopt_core.errors import RecipeError

    requests: dict[str, Any] = {}
    text = RECIPE.format(workload=workload, epochs=SMOKE_EPOCHS if smoke else EPOCHS)
    text += SMOKE_OPTIONS if smoke else ""
    stacks = {SMOKE_STACK: STACKS[SMOKE_STACK]} if smoke else STACKS
    for name, choices in {"baseline": [""], **stacks}.items():
        path = folder / f"{name}.toml"
        for tables in choices:
            path.write_text(text + tables, encoding="utf-8")
            try:
                requests[name] = make_request(str(path), [], compares=False)[0]
                break
            except RecipeError as error:
                print(f"  {name}: {error}", flush=True)
    return requests


def step_seconds(
    requests: Mapping[str, Any], runner: Any, rounds: int
) -> dict[str, list[float | None]]:
    """Return the seconds of a steady step by request and round; None for a failed run."""
    from tfopt_core.trials.processes import Processes
    from tfopt_core.trials.request import ScheduledRun, Variant

    seconds: dict[str, list[float | None]] = {name: [] for name in requests}
    for round_ in range(rounds):
        # there and back, so that a machine that slows down favours none
        for position, name in enumerate(list(requests)[:: 1 if round_ % 2 == 0 else -1]):
            request = requests[name]
            scheduled = ScheduledRun(round_, position, Variant(name, request.plugins), round_ + 1)
            run = Processes(request, runner).run(
                scheduled,
                request.folder.name,
                lambda message: None,
                warm_seconds=RUN_SECONDS,
            )
            if not run.ok:
                print(f"  {name} failed: {run.error}", flush=True)
                seconds[name].append(None)
                continue
            fit = run.fit
            seconds[name].append(fit.step_seconds)
    return seconds


def line(name: str, gains: Sequence[float], bound: float | None) -> tuple[str, bool]:
    """Return a row of the table, and whether the bound held."""
    gain = statistics.median(gains)
    held = bound is None or gain <= bound * (1 + TOLERANCE)
    most = "no bound" if bound is None else f"at most {bound:.2f}x"
    rounds = ", ".join(f"{gain:.2f}" for gain in gains)
    outcome = "holds" if held else "EXCEEDED"
    return f"  {name:<10}{gain:6.2f}x  {most:<16}{outcome}  (rounds: {rounds})", held


def compare(workload: str, rounds: int, smoke: bool = False) -> bool:
    """Diagnose a workload, measure its stacks and print a row for each. Return whether all bounds
    held."""
    from tfopt_core.workers.fork import ForkRunner

    held = True
    with tempfile.TemporaryDirectory(prefix="tfopt-bounds-") as temporary:
        folder = Path(temporary)
        (folder / "pyproject.toml").touch()  # a project of its own
        requests = stack_requests(folder, workload, smoke)
        diagnosis = diagnosed(folder / "baseline.toml")
        shares = ", ".join(f"{part} {diagnosis[part]['share']:.0%}" for part in STACKS)
        print(f"{workload}: {diagnosis['step_seconds'] * 1e3:.3g} ms a step: {shares}", flush=True)
        with ForkRunner() as runner:
            seconds = step_seconds(requests, runner, rounds)
        for name in [name for name in requests if name != "baseline"] if smoke else STACKS:
            pairs = zip(seconds["baseline"], seconds.get(name, []), strict=False)
            gains = [base / fast for base, fast in pairs if base and fast]
            if not gains:
                print(f"  {name:<10}not measured", flush=True)
                held = False
                continue
            row, fine = line(name, gains, diagnosis["bounds"][name])
            held = held and fine
            print(row, flush=True)
    return held


def main() -> int:
    """Print the table. Return 1 if a bound was exceeded."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tfopt_core.hooks.installed.discovery import registrations

    shipped = [
        name
        for name, registered in registrations("tfopt.workloads").items()
        if registered[0].distribution == "tfopt"
    ]
    parser = make_parser(__doc__)
    parser.add_argument("--workload", action="append", choices=shipped)
    parser.add_argument("--rounds", type=positive, default=3)
    arguments = parser.parse_args()
    if arguments.smoke:
        compare(SMOKE_WORKLOAD, 1, smoke=True)
        return 0
    results = [compare(name, arguments.rounds) for name in arguments.workload or shipped]
    print("all bounds hold" if all(results) else "a bound was exceeded, or could not be tested")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
