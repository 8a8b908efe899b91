"""Handle runs of scripts that raise, or exit with a status, after the judged fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE


def without_early_ends(runs: Sequence[RunResult]) -> tuple[RunResult, ...]:
    """Return the runs, with those marked failed whose script made fewer fits than other runs.

    If the recipe names no fit, a run cannot know that more fits would have followed.
    """
    most = max((len(run.fits) for run in runs if run.ok), default=0)
    return tuple(
        attrs.evolve(
            run,
            status="failed",
            error=f"{run.after_fits} (after fit {len(run.fits)}; other runs made {most})",
        )
        if run.ok and run.after_fits is not None and run.judged is None and len(run.fits) < most
        else run
        for run in runs
    )


def ends_in_words(runs: Sequence[RunResult]) -> Iterator[str]:
    """Yield warnings about scripts that did not end well after their fits."""
    counted = [run for run in runs if run.ok]
    ended = [run for run in counted if run.after_fits is not None]
    if not ended:
        return
    yield (
        f"in {len(ended)} of {len(counted)} runs the script did not end well after "
        f"{ended[0].fit.name}: {ended[0].after_fits}; the times of its fits count, and what it "
        "would have trained after that is not in them"
    )
    if any(not fit.complete for run in ended for fit in run.fits):
        yield "runs were cut short, so that may not happen in a whole training"
    if all(run.variant != BASELINE for run in ended):
        yield (
            "that happened with plugins only: see whether the script works with them, by "
            "`tfopt train` with this recipe"
        )
