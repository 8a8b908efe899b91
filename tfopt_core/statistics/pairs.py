"""Pair the runs of one round, which share its seed."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL


@attrs.frozen
class Pair:
    """Two runs of one round; a gain is `without` against `with_`."""

    without: RunResult
    with_: RunResult

    @property
    def run_ids(self) -> tuple[str, str]:
        """The ids of both runs."""
        return self.without.id, self.with_.id


def pairs_of(
    runs: Sequence[RunResult], without: str = BASELINE, with_: str = FULL
) -> tuple[Pair, ...]:
    """Return the pairs of the rounds in which both variants ended well, in order."""
    rounds: dict[int, dict[str, RunResult]] = {}
    for run in runs:
        if run.ok:
            rounds.setdefault(run.round, {})[run.variant] = run
    return tuple(
        Pair(rounds[round_][without], rounds[round_][with_])
        for round_ in sorted(rounds)
        if without in rounds[round_] and with_ in rounds[round_]
    )


def wall_seconds(run: RunResult) -> float:
    """Return the wall time of a run that ended well."""
    assert run.wall_seconds is not None
    return run.wall_seconds


def applied_plugins(runs: Sequence[RunResult]) -> tuple[str, ...]:
    """Return the plugins whose effect every one of these runs confirmed."""
    if not runs:
        return ()
    return tuple(
        name
        for name in runs[0].effects
        if all(name in run.effects and run.effects[name].applied for run in runs)
    )
