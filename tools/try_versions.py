"""Run the fast tests on the oldest and the newest TensorFlow and Keras, and write their table.

    .venv/bin/python tools/try_versions.py [TENSORFLOW/KERAS ...] [--write]

Without an argument these are two corners of the range in pyproject.toml: its lower bounds, of every
requirement, and "newest/newest", what pip chooses. Each gets an environment of its own in
.venv-versions (one that is there is used again; some GB each), in which the fast tests run, `tfopt
apply quickstart` makes a short measurement, and the private members that this version lacks are
listed. --write puts the rows into docs/guide/installing.md. Ends with status 1 if anything failed.
PYTHON=... names the interpreter for new environments.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guide" / "installing.md"
MARKS = ("<!-- versions: begin -->", "<!-- versions: end -->")
NEWEST = "newest"
# (pages are the same for each version, and one of them is written here)
FAST = ("tests/unit", "tests/conformance", "--ignore=tests/unit/docs", "-m", "not slow")
SHORT = ("--set", "workload.epochs=1", "--set", "workload.options.examples=1000")
HEADINGS = (
    "TensorFlow", "Keras", "NumPy", "Python", "passed", "skipped", "failed", "`tfopt apply`",
)  # fmt: skip

_ASKED = """
import json, platform
from importlib.metadata import version
from tfopt_core.private_api import all_missing
names = ("tensorflow", "keras", "numpy")
found = {name: version(name) for name in names}
print(json.dumps({**found, "python": platform.python_version(), "missing": all_missing()}))
"""


class Corner(NamedTuple):
    """The versions of a corner, as `major.minor` or "newest"."""

    tensorflow: str
    keras: str

    def requirements(self, lowest: Mapping[str, str]) -> list[str]:
        """Return what pip is asked for besides tfopt's own requirements.

        :param lowest: the lowest version of each requirement; all apply to the oldest corner.
        """
        ours = self._asdict()
        oldest = ours.items() <= lowest.items()
        return [
            package if version == NEWEST else f"{package}=={version}.*"
            for package, version in ours.items()
        ] + [f"{name}=={lowest[name]}" for name in lowest if oldest and name not in ours]

    @classmethod
    def parse(cls, text: str) -> Corner:
        """Return the corner that a word of the command line names.

        :raises argparse.ArgumentTypeError: if it is none.
        """
        if not re.fullmatch(rf"(\d+\.\d+|{NEWEST})/(\d+\.\d+|{NEWEST})", text):
            raise argparse.ArgumentTypeError(f'expected such as 2.18/3.9, got "{text}"')
        tensorflow, _, keras = text.partition("/")
        return cls(tensorflow, keras)


class Counts(NamedTuple):
    """The outcomes of a run of pytest."""

    passed: int
    skipped: int
    failed: int


class Tried(NamedTuple):
    """What one environment gave.

    :param versions: of TensorFlow, Keras, NumPy and Python.
    :param missing: the sentence of each feature that is disabled.
    :param measured: whether `tfopt apply` measured without a failed run.
    """

    versions: tuple[str, ...]
    counts: Counts
    measured: bool
    missing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing failed."""
        return self.measured and not self.counts.failed and self.counts.passed > 0


def lower_bounds(pyproject: str) -> dict[str, str]:
    """Return the lowest version of each requirement of tfopt and of its reports and searches.

    :param pyproject: the text of pyproject.toml.
    """
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *extras["report"], *extras["tune"]]
    return dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(required), re.MULTILINE))


def read_counts(junit: str) -> Counts:
    """Return the counts of a JUnit XML report."""
    suites = list(ElementTree.fromstring(junit).iter("testsuite"))
    tests, skipped, failures, errors = (
        sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "skipped", "failures", "errors")
    )
    failed = failures + errors
    return Counts(tests - skipped - failed, skipped, failed)


def render(results: Sequence[Tried]) -> str:
    """Return the table, and below it what each version lacks."""
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for tried in results:
        measured = "measures" if tried.measured else "fails"
        lines.append(f"| {' | '.join((*tried.versions, *map(str, tried.counts), measured))} |")
    for tried in results:
        tensorflow, keras, *_ = tried.versions
        has = "lacks:" if tried.missing else "has all private members that tfopt uses."
        lines += ["", f"TensorFlow {tensorflow} with Keras {keras} {has}"]
        lines += ["", *(f"- {sentence}" for sentence in tried.missing)] if tried.missing else []
    return "\n".join(lines)


def written_into(page: str, table: str) -> str:
    """Return the page with the table between its two marks."""
    begin, end = MARKS
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


def try_corner(corner: Corner, lowest: Mapping[str, str]) -> Tried:
    """Return what the tests and a short measurement give in the environment of a corner."""
    folder = ROOT / ".venv-versions" / f"tensorflow-{corner.tensorflow}-keras-{corner.keras}"
    maker = [
        "sh",
        "tools/make_venv.sh",
        str(folder),
        "--upgrade",
        "--editable",
        ".[test,lint,report,tune]",
    ]
    subprocess.run([*maker, *corner.requirements(lowest)], cwd=ROOT, check=True)
    python = folder / "bin" / "python"
    asked = subprocess.run(
        [python, "-c", _ASKED], cwd=ROOT, env=_environment(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    facts = json.loads(asked.stdout.splitlines()[-1])
    with tempfile.TemporaryDirectory() as scratch:
        return Tried(
            tuple(facts[name] for name in ("tensorflow", "keras", "numpy", "python")),
            _tested(python, Path(scratch, "junit.xml")),
            _measured(folder / "bin" / "tfopt", Path(scratch)),
            tuple(facts["missing"]),
        )


def _tested(python: Path, junit: Path) -> Counts:
    command = [python, "-m", "pytest", "-q", "-n", "logical", "--dist", "worksteal", *FAST]
    subprocess.run([*command, f"--junitxml={junit}"], cwd=ROOT, env=_environment(), check=False)
    return read_counts(junit.read_text(encoding="utf-8")) if junit.exists() else Counts(0, 0, 1)


def _measured(tfopt: Path, folder: Path) -> bool:
    command = [tfopt, "apply", "quickstart", *SHORT, "--json", "results.json"]
    done = subprocess.run(command, cwd=folder, env=_environment(), check=False)
    if done.returncode:
        return False
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return "failed" not in {run["status"] for run in results["runs"]}


def _environment() -> dict[str, str]:
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "KERAS_BACKEND", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in ours}


def main() -> int:
    """Try the corners that are asked for; return 0 if nothing failed in any."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("corners", nargs="*", type=Corner.parse, metavar="TENSORFLOW/KERAS")
    options.add_argument("--write", action="store_true")
    asked = options.parse_args()
    lowest = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = Corner(lowest["tensorflow"], lowest["keras"])
    corners = asked.corners or [oldest, Corner(NEWEST, NEWEST)]
    results = [try_corner(corner, lowest) for corner in corners]
    table = render(results)
    print(table)
    if asked.write:
        PAGE.write_text(written_into(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0 if all(tried.ok for tried in results) else 1


if __name__ == "__main__":
    sys.exit(main())
