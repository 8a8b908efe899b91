"""Run the tests that draw their examples, for a chosen time, and count the examples.

    .venv/bin/python tools/fuzz.py [--seconds 60] [--target NAME ...]

Each target is a few tests of hypothesis, which `make test` runs with few examples; here they run
again and again with new ones, so many seconds a target. Prints the examples of each. A failure is
shown with its example, which hypothesis keeps in .hypothesis for the next run of that test; it
ends the target, and the status is 1.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.errors import HypothesisException

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "tests" / "unit"
# The files of each target; of them all tests with drawn examples are run.
TARGETS = {
    "recipe": (
        UNIT / "recipe" / "test_recipe_reading.py", UNIT / "recipe" / "test_recipe_toml.py",
        UNIT / "recipe" / "test_recipe_locate.py", UNIT / "recipe" / "test_recipe_writing.py",
    ),
    "set": (UNIT / "recipe" / "test_recipe_overrides.py",),
    "results": (
        ROOT / "tests" / "faults" / "test_mangled_results.py",
        UNIT / "report" / "test_report_text.py",
    ),
    "plan": (UNIT / "data" / "test_round_trip.py",),
    "private-folder": (UNIT / "scripts" / "test_private_operations.py",),
    "fits": (ROOT / "tests" / "integration" / "test_drawn_fits.py",),
}  # fmt: skip
# Examples of one turn of a test: enough for hypothesis to build on those before.
EXAMPLES = 200


@attrs.define
class Fuzzed:
    """What became of a target."""

    examples: int = 0
    seconds: float = 0.0
    tests: int = 0
    failed: list[str] = attrs.field(factory=list)


@attrs.define(eq=False)
class ByTime:
    """A plugin of pytest: runs the collected tests turn by turn until the time is over."""

    seconds: float
    fuzzed: Fuzzed = attrs.field(factory=Fuzzed)
    _end: float = 0.0
    _failing: bool = False

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out the tests that draw nothing, and count the examples of the others."""
        drawing = [item for item in items if hasattr(item.obj, "hypothesis")]
        config.hook.pytest_deselected(items=[item for item in items if item not in drawing])
        items[:] = drawing
        for handle in {id(item.obj): item.obj.hypothesis for item in drawing}.values():
            handle.inner_test = self._counted(handle.inner_test)
        self.fuzzed.tests = len(items)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all tests in turn, each at least once."""
        begun = time.monotonic()
        self._end = begun + self.seconds
        while session.items and not self.fuzzed.failed:
            for item in session.items:
                self._failing = False
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if self._over():
                break
        self.fuzzed.seconds = time.monotonic() - begun
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a test that failed."""
        if report.failed:
            self.fuzzed.failed.append(report.nodeid)

    def _counted(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        # what draws within the test (`st.data()`) would seem flaky if it were cut: its turn ends
        whole = "data" in inspect.signature(inner).parameters

        def counted(*arguments: Any, **named: Any) -> None:
            # once a test fails, hypothesis tries its example again and makes it smaller
            if self._over() and self.fuzzed.examples and not (self._failing or whole):
                pytest.skip("the time is over")  # hypothesis passes it on at once
            try:
                inner(*arguments, **named)
            except HypothesisException:  # an example that the test does not want
                raise
            except Exception:
                self._failing = True
                raise
            self.fuzzed.examples += 1

        return counted

    def _over(self) -> bool:
        return time.monotonic() > self._end


def fuzz(target: str, seconds: float) -> Fuzzed:
    """Run the tests of a target for so many seconds, and return what became of them."""
    settings.register_profile(
        "fuzz", deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck)
    )
    plugin = ByTime(seconds)
    status = pytest.main(
        ["-q", "--no-header", "--hypothesis-profile=fuzz", "-p", "no:cacheprovider",
         "-o", "faulthandler_timeout=0",  # a turn may take longer than a test
         f"--rootdir={ROOT}", *map(str, TARGETS[target])],
        plugins=[plugin],
    )  # fmt: skip
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(int(status))
    return plugin.fuzzed


def main() -> None:
    """Run the targets, and print a row of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each target (60)")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one")
    options = parser.parse_args()
    found = {name: fuzz(name, options.seconds) for name in options.target or TARGETS}
    print(f"\n{'target':<16}{'tests':>6}{'examples':>10}{'seconds':>9}  failed")
    for name, one in found.items():
        print(f"{name:<16}{one.tests:>6}{one.examples:>10}{one.seconds:>9.0f}  "
              f"{', '.join(one.failed) or 'none'}")  # fmt: skip
    sys.exit(any(one.failed for one in found.values()))


if __name__ == "__main__":
    main()
