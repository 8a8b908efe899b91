"""Measure the rows of the catalogue in rounds, and keep what was measured."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

import attrs
from catalogue_figures import LOOKS, is_open
from catalogue_rows import ROWS, Place
from catalogue_runs import CatalogueRun
from pacing import OutOfTime, fits, say
from peers.course import Store

from tfopt_core.hooks.plugin_class import Equivalence
from tfopt_core.statistics.figures import seconds_in_steps
from tfopt_core.statistics.runs import Pair

# What has failed so often and never trained is not tried again.
MAX_FAILURES = 2
Round = dict[str, CatalogueRun]


class Bench(Protocol):
    """What trains; see `catalogue_runs.Workbench`."""

    def key(self, place_name: str, name: str, /) -> str:
        """Return what identifies a training."""

    def baseline_of(self, place_name: str, name: str, /) -> str:
        """Return the baseline with which a run is compared."""

    def run(
        self, place_name: str, name: str, number: int, settings: Mapping[str, Any] | None, /
    ) -> CatalogueRun:
        """Train, and return what was recorded."""


@attrs.define
class Catalogue:
    """The rows of the catalogue with their rounds.

    A round is one run of the baseline and one of each plugin that needs it, at one place, in an
    order that is drawn and under one seed. All places have a round before the next one begins. A
    round is kept once it is whole.

    :param names: the plugins.
    :param pairs: so many for each row.
    :param most: up to so many for a row whose verdict is open after a look, as in `tfopt apply`.
    :param until: the monotonic time after which no round is begun that would end later.
    """

    names: Sequence[str]
    places: Mapping[str, Place]
    bench: Bench
    store: Store
    pairs: int
    most: int
    until: float = float("inf")
    _rounds: dict[str, list[Round]] = attrs.field(init=False)

    @_rounds.default
    def _read_rounds(self) -> dict[str, list[Round]]:
        return {place: list(self._stored(place)) for place in self.places}

    def run(self) -> None:
        """Measure until each row has its pairs.

        :raises OutOfTime: if the time ends before that.
        """
        broken = set()
        for count in range(1, self.most + 1):
            for place in [place for place in self.places if place not in broken]:
                names = [name for name in self.at(place) if self.needs(place, name, count)]
                timely = names and fits(self.until, self.seconds_of_round(place, names))
                if timely and not self._run_round(place, names):
                    broken.add(place)
        if any(self.left_at(place)[0] for place in self.places if place not in broken):
            raise OutOfTime

    def at(self, place: str) -> list[str]:
        """Return the plugins that are measured at a place."""
        return [name for name in self.names if place in (ROWS[name].helps, ROWS[name].harms)]

    def needs(self, place: str, name: str, count: int) -> bool:
        """Return whether a row needs its run of this number, counted from 1."""
        runs = self.runs_of(place, name)
        if len(runs) >= count or self.why_none(place, name):
            return False
        looks = [look for look in (self.pairs, *LOOKS) if self.pairs <= look < count]
        # decided by the look alone, so that a row does not stop where chance favours it
        return not looks or is_open(self.pairs_of(place, name)[: max(looks)], self.math_of(runs))

    def why_none(self, place: str, name: str) -> str:
        """Return why a row has no figures and gets none, in words; "" if it has or may get some."""
        runs = self.runs_of(place, name)
        if runs and runs[0].why_not:
            return f"not applied: {runs[0].why_not}"
        if len(runs) >= MAX_FAILURES and all(run.failed for run in runs):
            return f"failed: {runs[-1].failed}"
        return ""

    def runs_of(self, place: str, name: str) -> list[CatalogueRun]:
        """Return the runs that count of a plugin at a place."""
        key = self.bench.key(place, name)
        runs = [each[name] for each in self._rounds[place] if name in each]
        return [run for run in runs if run.key == key]

    def pairs_of(self, place: str, name: str) -> list[Pair]:
        """Return the pairs of a row, whose processes started in the same way."""
        baseline = self.bench.baseline_of(place, name)
        keys = [self.bench.key(place, each) for each in (baseline, name)]
        pairs = []
        for each in self._rounds[place]:
            sides = [each.get(baseline), each.get(name)]
            runs = [side.run for side, key in zip(sides, keys, strict=True)
                    if side is not None and side.key == key and side.run is not None]  # fmt: skip
            if len(runs) == len(sides) and len({run.started for run in runs}) == 1:
                pairs.append(Pair(*runs))
        return pairs

    def all_runs(self) -> list[CatalogueRun]:
        """Return all runs that count, with those of the baselines."""
        return [
            run
            for place, rounds in self._rounds.items()
            for each in rounds
            for name, run in each.items()
            if run.key == self.bench.key(place, name)
        ]

    @staticmethod
    def math_of(runs: Sequence[CatalogueRun]) -> Equivalence | None:
        """Return what a plugin does to the mathematics, None before it was applied."""
        return next((run.equivalence for run in runs if run.equivalence is not None), None)

    def left(self) -> tuple[int, float]:
        """Return how many runs are left for all pairs, and about how many seconds they take.

        A plugin that was not run yet counts as one that is applied.
        """
        plans = [self.left_at(place) for place in self.places]
        return sum(count for count, _ in plans), sum(seconds for _, seconds in plans)

    def left_at(self, place: str) -> tuple[int, float]:
        """Return the same of one place."""
        count, seconds = 0, 0.0
        for number in range(1, self.pairs + 1):
            names = [name for name in self.at(place) if self.needs(place, name, number)]
            if names:
                count += len(self._order(place, names))
                seconds += self.seconds_of_round(place, names)
        return count, seconds

    def seconds_of_round(self, place: str, names: Sequence[str]) -> float:
        """Return about how long a round takes in which these plugins run."""
        return sum(self._seconds_of(place, name) for name in self._order(place, names))

    def _seconds_of(self, place: str, name: str) -> float:
        known = [run.seconds for run in self.runs_of(place, name)]
        times = ROWS[name].times if name in ROWS else 1.0
        return median(known) if known else times * self.places[place].seconds

    def _order(self, place: str, names: Sequence[str]) -> list[str]:
        """Return what runs in a round: the baselines of these plugins, and they."""
        return [*dict.fromkeys(self.bench.baseline_of(place, name) for name in names), *names]

    def _run_round(self, place: str, names: Sequence[str]) -> bool:
        """Run a round and keep it. Return False if a baseline failed: then nothing is kept."""
        number = len(self._rounds[place])
        order = self._order(place, names)
        random.Random(f"{place} {number}").shuffle(order)
        found: Round = {}
        for name in order:
            earlier = self.runs_of(place, name)
            settings = next((run.settings for run in earlier if run.settings is not None), None)
            found[name] = run = self.bench.run(place, name, number, settings)
            say(f"{place}, round {number + 1}: {name}: {_in_words(run)}")
            if name not in ROWS and run.run is None:
                say(f"{place} is given up in this call: nothing can be compared without the {name}")
                return False
        self.store.keep(_key(place, number), {name: run.to_dict() for name, run in found.items()})
        self._rounds[place].append(found)
        return True

    def _stored(self, place: str) -> Iterator[Round]:
        number = 0
        while (stored := self.store.get(_key(place, number))) is not None:
            yield {name: CatalogueRun.from_dict(run) for name, run in stored.items()}
            number += 1


def _key(place: str, number: int) -> str:
    return f"{place} {number}"


def _in_words(run: CatalogueRun) -> str:
    """Return what a run came to, in one line."""
    if run.run is None:
        text = f"not applied: {run.why_not}" if run.why_not else f"failed: {run.failed}"
        return " ".join(text.split())
    fit, steps = run.run.fit, seconds_in_steps(run.run)
    an_epoch = "" if steps is None else f", {steps / fit.epochs:.2f} s of steps an epoch"
    target = "" if fit.epochs_to_target is None else f", target after {fit.epochs_to_target} epochs"
    return (
        f"{run.seconds:.1f} s, start-up {fit.one_time_seconds:.1f} s{an_epoch}{target}"
        f" ({run.run.started})"
    )
