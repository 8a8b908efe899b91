"""First contacts: what `tfopt apply SCRIPT` says of each script in tests/integration/scripts.

    .venv/bin/python benchmarks/scripts.py [NAME ...] [--smoke]

Prints a line a script: what was proposed and kept, the verdict, the interval, and how long it took.
Nothing else should run meanwhile; about two minutes a script.
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

SCRIPTS = Path(__file__).parents[1] / "tests" / "integration" / "scripts"
# To see that it runs: the smallest script, and no more measuring than four pairs of it.
SMOKE_SCRIPT, SMOKE_OPTIONS = "eager_tiny", ("--budget", "10s")


@attrs.frozen
class Line:
    """What came of one script."""

    name: str
    stack: str
    verdict: str
    speedup: str
    seconds: float


def first_contact(script: Path, *options: str) -> Line:
    """Run the command in a folder of its own, on a copy of the script.

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
            said = " ".join((done.stdout or done.stderr).split())
            return Line(script.stem, "", f"status {done.returncode}: {said[:100]}", "", seconds)
        results = json.loads((folder / "out.json").read_text())
    return line_of(script.stem, results, seconds)


def line_of(name: str, results: Mapping[str, Any], seconds: float) -> Line:
    """Return what the JSON of the command says of a script."""
    if not results.get("measured", True):
        tried = ", ".join(one["plugin"] for one in results["left_out"]) or "nothing"
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
    asked = parser.parse_args()
    names = [SMOKE_SCRIPT] if asked.smoke else asked.names
    options = SMOKE_OPTIONS if asked.smoke else ()
    scripts = sorted(SCRIPTS.glob("*.py"))
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
