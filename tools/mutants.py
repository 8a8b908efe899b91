"""Change single operations in tfopt_core/statistics, and see whether its tests notice.

    .venv/bin/python tools/mutants.py [--count 300] [--seed 22] [--at PLACE ...] [--json FILE]

The changes are those of cosmic-ray (numbers, comparisons, arithmetic, booleans, not, break, loops,
decorators), at drawn places; `pip install cosmic-ray` into an environment of its own and name that
in PYTHONPATH. All tests are collected and run once; then each mutant is a fork in which the code of
one function, or one constant, is another, and the tests that call it run, the fastest first, until
one fails. Prints each mutant that no test noticed, and ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings
from mutant_changes import MUTATED, ROOT, Change, Mutant, all_mutants, change_of, clear_caches

TESTS = ROOT / "tests" / "unit" / "statistics"
# A mutant may loop for ever: it has this many times what its tests took, and some seconds.
TIMES, SPARE_SECONDS = 5.0, 10.0
EXAMPLES = 20
# Ends of a fork.
NOTICED, SURVIVED = 1, 0


@attrs.define(eq=False)
class Mutating:
    """A plugin of pytest: runs the tests once, then those that a mutant touches, in a fork each.

    :param count: how many mutants to draw.
    :param places: the only mutants to try, by their places; empty for drawn ones.
    """

    count: int
    seed: int
    places: tuple[str, ...]
    survivors: list[tuple[Mutant, int]] = attrs.field(factory=list)
    noticed: int = 0
    timed_out: int = 0
    of: int = 0
    broken: list[str] = attrs.field(factory=list)
    _seconds: dict[Any, float] = attrs.field(factory=dict)
    _called: dict[Any, set[tuple[str, int]]] = attrs.field(factory=dict)
    _forked: bool = False

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all tests, then the mutants."""
        for item in session.items:
            self._run(item)
        if self.broken:
            return True
        mutants = all_mutants()
        self.of = len(mutants)
        if self.places:
            mutants = [mutant for mutant in mutants if mutant.place in self.places]
        random.Random(self.seed).shuffle(mutants)
        done = 0
        for mutant in mutants:
            if done == self.count:
                break
            try:
                change = change_of(mutant)
            except Exception:
                self.noticed += 1  # it cannot even be imported
                done += 1
                continue
            if change is None:
                continue
            self._try(mutant, change)
            done += 1
            if done % 25 == 0:
                print(f"\n{done} mutants, {len(self.survivors)} not noticed", flush=True)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """End the fork at the first test that fails."""
        if report.failed:
            if self._forked:
                os._exit(NOTICED)
            self.broken.append(report.nodeid)

    def _run(self, item: Any) -> None:
        """Run a test, and note how long it takes and which functions it calls."""
        called: set[tuple[str, int]] = set()
        seen: set[types.CodeType] = set()
        prefix = str(MUTATED)

        def trace(frame: Any, event: str, argument: Any) -> None:
            code = frame.f_code
            if code not in seen:
                seen.add(code)
                if code.co_filename.startswith(prefix):
                    called.add((code.co_filename, code.co_firstlineno))

        begun = time.monotonic()
        sys.settrace(trace)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            sys.settrace(None)
        self._seconds[item], self._called[item] = time.monotonic() - begun, called

    def _try(self, mutant: Mutant, change: Change) -> None:
        items = [
            item
            for item, called in self._called.items()
            if any(change.touches(*place) for place in called)
        ]
        items.sort(key=self._seconds.__getitem__)
        child = os.fork()
        if child == 0:
            self._forked = True
            for item in items[:1]:
                item.config.pluginmanager.unregister(name="terminalreporter")
            clear_caches()  # what the run without mutants has left
            change.apply()
            for item in items:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            os._exit(SURVIVED)
        end = time.monotonic() + TIMES * sum(map(self._seconds.__getitem__, items)) + SPARE_SECONDS
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.timed_out += 1
                return
            time.sleep(0.005)
        if status == SURVIVED:
            self.survivors.append((mutant, len(items)))
            print(f"\n{mutant.place} ({len(items)} tests)\n{mutant.difference()}", flush=True)
        else:
            self.noticed += 1


def main() -> None:
    """Try the mutants, and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--at", action="append", default=[], metavar="PLACE", help="only this one")
    parser.add_argument(
        "--tests", action="append", default=[], help="instead of those of its folder"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the survivors' places")
    options = parser.parse_args()
    settings.register_profile(
        "mutants", deadline=None, max_examples=EXAMPLES, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    plugin = Mutating(options.count, options.seed, tuple(options.at))
    pytest.main(
        ["-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", "-m",
         "not thorough", f"--rootdir={ROOT}", *(options.tests or [str(TESTS)])],
        plugins=[plugin],
    )  # fmt: skip
    if plugin.broken:
        sys.exit(f"tests fail without any mutant: {', '.join(plugin.broken)}")
    left = len(plugin.survivors)
    tried = plugin.noticed + plugin.timed_out + left
    print(f"\n{tried} of {plugin.of} mutants (seed {options.seed}): {plugin.noticed} noticed, "
          f"{plugin.timed_out} never ended, {left} not noticed")  # fmt: skip
    if options.json is not None:
        options.json.write_text(json.dumps([mutant.place for mutant, _ in plugin.survivors]))
    sys.exit(left > 0)


if __name__ == "__main__":
    main()
