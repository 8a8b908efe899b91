"""Put into words which traces of a step cost time while it ran, and why they were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from tfopt_core.records.fit import StepTrace, TraceCause
from tfopt_core.records.results import RunResult

# So many shapes are named.
SHOWN = 4
MENDS: dict[TraceCause, str] = {
    "shapes": "pad batches to few shapes, or leave the changing axis None in the signature",
    "python": "keep what changes in a tf.Variable, and build the train function once",
}


@attrs.frozen
class Retraces:
    """The traces of a step for one cause: how often, in words, and what avoids them."""

    in_words: str
    mend: str


def retraces(traces: Iterable[StepTrace]) -> Iterator[Retraces]:
    """Yield the traces that came after the first step, by their cause.

    Those of tfopt's own loops are no fault of the training, and left out.
    """
    every = list(traces)
    for cause, mend in MENDS.items():
        alike = [trace for trace in every if trace.cause == cause]
        if not alike:
            continue
        shapes = list(dict.fromkeys(trace.shapes for trace in alike))
        listed = "; ".join(shapes[:SHOWN]) + ("; ..." if len(shapes) > SHOWN else "")
        times = "once" if len(alike) == 1 else f"{len(alike):,} times"
        why = f"for new shapes: {listed}"
        if cause == "python":
            why = "for the same shapes: a Python value or the train function changed"
        yield Retraces(f"{times} {why}", mend)


def retraced_runs(runs: Sequence[RunResult]) -> list[str]:
    """Return a warning for each variant and cause, about the run that was traced most often."""
    warnings = []
    for variant in dict.fromkeys(run.variant for run in runs):
        fits = [fit for run in runs if run.variant == variant for fit in run.timed_fits]
        most = max((fit.traces for fit in fits), key=len, default=())
        warnings += [
            f'in a run of "{variant}" the step was traced again {again.in_words}; {again.mend}'
            for again in retraces(most)
        ]
    return warnings
