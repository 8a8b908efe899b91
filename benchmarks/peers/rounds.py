"""Carry out a race: try each system's options, then run all contestants in rounds."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from statistics import median

import attrs
from pacing import OutOfTime, fits, say

from peers import standings
from peers.course import Course, Store
from peers.lines import LINES, WORTH_RACING, Contestant, grids, ours, recipes_digest, stock
from peers.processes import run_process
from peers.turns import Report

# About what measuring the limits takes.
LIMIT_SECONDS = 40.0


@attrs.define
class Race:
    """The lines of a race with their runs.

    :param left_out_rounds: the first rounds, in which recipes without one of their plugins run too.
    :param until: the monotonic time after which no run is begun that would end later.
    """

    courses: dict[str, Course]
    store: Store
    rounds: int
    smoke: bool
    has_peers: bool
    left_out_rounds: int = 3
    until: float = float("inf")

    def run(self) -> None:
        """Run all that the store lacks.

        :raises OutOfTime: if the time ends before that.
        """
        for course in self.courses.values():
            self._wait_for(self.seconds_of_grid(course.name))
            course.prepare()
            self._try_grids(course)
        if self.store.get("limits") is None:
            self._wait_for(LIMIT_SECONDS)
            self._measure_limits()
        for number in range(self.rounds):
            for name in self.courses:
                self._wait_for(self.seconds_of_round(name, number))
                self._run_round(name, number)

    def contestants(self, name: str) -> list[Contestant] | None:
        """Return who races: stock, the fastest of each peer's grid in both classes, and tfopt; None
        before all of the grid was tried."""
        found = [stock()]
        for grid in self._grids().values():
            tried = {}
            for contestant in grid:
                report = self.store.get(_grid_key(name, contestant))
                if report is None:
                    return None
                if len(report.get("epoch_seconds", ())) > 1 and not report["cut"]:
                    tried[contestant.label] = min(report["epoch_seconds"][1:])
            found += _fastest(grid, tried)
        return [*found, *ours(name)]

    def left(self) -> tuple[int, float]:
        """Return how many runs are left and about how many seconds they take."""
        names, rounds = list(self.courses), range(self.rounds)
        count = sum(len(self._pending(name, number)) for name in names for number in rounds)
        seconds = sum(self.seconds_of_round(name, number) for name in names for number in rounds)
        for name in names:
            count += sum(self.store.get(key) is None for key in self._grid_keys(name))
            seconds += self.seconds_of_grid(name)
        if self.store.get("limits") is None:
            count, seconds = count + 1, seconds + LIMIT_SECONDS
        return count, seconds

    def seconds_of_grid(self, name: str) -> float:
        """Return about how long preparing a line and trying what is left of its grids takes."""
        keys = self._grid_keys(name)
        missing = sum(self.store.get(key) is None for key in keys)
        return LINES[name].seconds[1] * missing / max(1, len(keys))

    def seconds_of_round(self, name: str, number: int) -> float:
        """Return about how long the runs take that a round of a line lacks."""
        expected = LINES[name].seconds[0]
        seconds = 0.0
        for contestant in self._pending(name, number):
            known = [
                report["process_seconds"] for earlier in range(self.rounds)
                if contestant and (report := self.store.get(_key(name, earlier, contestant)))
            ]  # fmt: skip
            seconds += median(known) if known else expected
        return seconds

    def rows(self, name: str) -> list[standings.Row]:
        """Return a row for each contestant, of the rounds in which all of them have run."""
        contestants = self.contestants(name) or []
        whole = [
            number for number in range(self.rounds)
            if all(self.store.get(_key(name, number, c)) is not None
                   for c in self._of_round(contestants, number))
        ]  # fmt: skip
        if not whole:
            return []
        return [
            standings.Row(
                c.system, c.in_words, c.exact,
                tuple(self.store.get(_key(name, number, c)) or {}
                      for number in whole if c in self._of_round([c], number)),
                c.left_out, c.races,
            )
            for c in contestants
        ]  # fmt: skip

    def tried(self, name: str) -> list[tuple[str, str, str]]:
        """Return each option that was tried on a line: system, options, seconds an epoch."""
        found = []
        for contestant in [c for grid in self._grids().values() for c in grid]:
            report = self.store.get(_grid_key(name, contestant)) or {}
            seconds = report.get("epoch_seconds", ())
            if "failed" in report:
                words = f"failed: {str(report['failed']).splitlines()[-1][:120]}"
            elif report.get("cut"):
                words = "ended early, far slower than the best"
            else:
                words = f"{min(seconds[1:]):.4f}" if len(seconds) > 1 else ""
            precision = "float32" if contestant.exact else "bfloat16"
            found.append((contestant.system, f"{contestant.in_words}, {precision}", words))
        return found

    def _grids(self) -> dict[str, list[Contestant]]:
        found = grids(self.smoke)
        return {system: grid for system, grid in found.items()
                if self.has_peers or system == standings.HAND_SET}  # fmt: skip

    def _grid_keys(self, name: str) -> list[str]:
        return [_grid_key(name, c) for grid in self._grids().values() for c in grid]

    def _pending(self, name: str, number: int) -> Sequence[Contestant | None]:
        """Return who runs in a round that is not whole; before the grid, None for each that may be
        chosen."""
        contestants = self.contestants(name)
        if contestants is None:
            others = 1 + round(1.5 * len(self._grids()))
            return [None] * (others + len(self._of_round(ours(name), number)))
        racing = self._of_round(contestants, number)
        missing = [c for c in racing if self.store.get(_key(name, number, c)) is None]
        return racing if missing else []

    def _try_grids(self, course: Course) -> None:
        for system, grid in self._grids().items():
            missing = [c for c in grid if self.store.get(_grid_key(course.name, c)) is None]
            if not missing:
                continue
            say(f"{course.name}: {system}, {len(missing)} options")

            def keep(contestant: Contestant, report: Report) -> None:
                self.store.keep(_grid_key(course.name, contestant), report)
                if "failed" in report:
                    say(f"  {contestant.label} failed: {report['failed'][-300:]}")

            course.tried(missing, keep)

    def _measure_limits(self) -> None:
        say("limits of this machine")
        folder = next(iter(self.courses.values())).folder
        out = folder / "limits.json"
        out.unlink(missing_ok=True)
        options = ["--smoke"] if self.smoke else []
        command = [sys.executable, "-m", "peers.limits", str(out), *options]
        done = run_process(command, folder, {})
        if "failed" in done:
            say(f"  failed: {done['failed']}")
            return
        self.store.keep("limits", json.loads(out.read_text(encoding="utf-8")))

    def _run_round(self, name: str, number: int) -> None:
        """Have all contestants of a round of a line train in turns, if the store lacks one."""
        course, racing, done = self.courses[name], [], []
        for contestant in self._pending(name, number):
            assert contestant is not None  # its grid has run
            first = self.store.get(_key(name, 0, contestant)) or {}
            if "failed" in first:  # in the first round, and is not tried again
                done.append((contestant, {**first, "process_seconds": 0.0}))
            else:
                racing.append(contestant)
        if racing:
            say(f"{name}, round {number + 1}: {len(racing)} contestants in turns")
            order = f"{name} {number}"
            racing = random.Random(order).sample(racing, len(racing))
            done += zip(racing, course.run(racing, course.seeds[number], order), strict=True)
        for contestant, report in done:
            self.store.keep(_key(name, number, contestant), report)
            seconds = report.get("epoch_seconds", ())
            words = f"{median(seconds[1:]):.4f} s an epoch" if len(seconds) > 1 else "failed"
            say(f"  {contestant.system}, {contestant.in_words}: {words}")

    def _of_round(self, contestants: Sequence[Contestant], number: int) -> list[Contestant]:
        """Return who runs in a round."""
        return [c for c in contestants if c.races or number < self.left_out_rounds]

    def _wait_for(self, seconds: float) -> None:
        if seconds and not fits(self.until, seconds):
            raise OutOfTime


def _fastest(grid: Sequence[Contestant], tried: dict[str, float]) -> list[Contestant]:
    """Return a system's fastest option in float32, and of the others if that is clearly faster."""
    in_float32, others = (
        min((c for c in grid if c.label in tried and c.exact is exact),
            key=lambda c: tried[c.label], default=None)
        for exact in (True, False)
    )  # fmt: skip
    if in_float32 is None:
        return [others or grid[0]]
    if others and tried[others.label] < WORTH_RACING * tried[in_float32.label]:
        return [in_float32, others]
    return [in_float32]


def _key(name: str, number: int, contestant: Contestant) -> str:
    """Return a run's key: under other recipes a round's runs are others, its peers' too, since what
    is compared must have run in turns."""
    return f"{name} {number} {contestant.label} {recipes_digest(name)}"


def _grid_key(name: str, contestant: Contestant) -> str:
    return f"{name} grid {contestant.label}"
