"""Run `tfopt apply SCRIPT` for each script in benchmarks/cases and tests/integration/scripts.

    .venv/bin/python benchmarks/scripts.py [NAME ...] [--smoke]

Prints a row for each script: the stack, the verdict, the interval and the time. It takes about two
minutes a script; nothing else should run meanwhile.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from options import make_parser

CASES = Path(__file__).parent / "cases"
# Those that tests run too.
SCRIPTS = Path(__file__).parents[1] / "tests" / "integration" / "scripts"
# To check that it runs: the smallest script, and few short pairs.
SMOKE_SCRIPT, SMOKE_OPTIONS = "eager_tiny", ("--pairs", "4", "--seconds", "1")


@attrs.frozen
class Line:
    """The row of one script."""

    name: str
    stack: str
    verdict: str
    speedup: str
    seconds: float


def first_contact(script: Path, *options: str) -> Line:
    """Run the command on a copy of the script in a temporary folder. Return the row.

    :param options: further options of the command.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(script, folder)
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tfopt_core", "apply", script.name, "-q", "--json", "out.json",
             *options],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        if not (folder / "out.json").exists():
            output = " ".join((done.stdout or done.stderr).split())
            return Line(script.stem, "", f"status {done.returncode}: {output[:100]}", "", seconds)
        results = json.loads((folder / "out.json").read_text())
    return line_of(script.stem, results, seconds)


def line_of(name: str, results: Mapping[str, Any], seconds: float) -> Line:
    """Return the row of a script from the JSON of the command."""
    if not results.get("measured", True):
        tried = ", ".join(left["plugin"] for left in results["left_out"]) or "nothing"
        return Line(name, f"(tried: {tried})", "nothing to gain", "", seconds)
    comparison = results["comparison"]
    interval = ""
    if comparison["speedup"] is not None:
        interval = "{speedup:.2f}x ({low:.2f} to {high:.2f})".format(**comparison)
    stack = ", ".join(results["resolved"])
    return Line(name, stack, comparison["verdict"], interval, seconds)


def main() -> None:
    """Print the table, line by line."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    names = [SMOKE_SCRIPT] if arguments.smoke else arguments.names
    options = SMOKE_OPTIONS if arguments.smoke else ()
    scripts = [path for place in (CASES, SCRIPTS) for path in sorted(place.glob("*.py"))]
    print(f"{'script':<22} {'verdict':<16} {'interval':<24} {'seconds':>7}  stack")
    for script in scripts:
        if not names or script.stem in names:
            line = first_contact(script, *options)
            print(
                f"{line.name:<22} {line.verdict:<16} {line.speedup:<24} {line.seconds:7.0f}  "
                f"{line.stack}",
                flush=True,
            )


if __name__ == "__main__":
    main()
