"""Say what else used the machine during runs, from two readings of its counters.

It hits all sides of a round alike where they take turns, and widens the interval where they do not;
no run is repeated for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from tfopt_core.records.results import RunResult

# The CPUs' ticks are 10 ms: a shorter interval cannot tell shares of a few percent.
SHORTEST_SECONDS = 0.2
# Smaller shares are not worth a line: those of other processes come from our own processes' ends,
# kernel threads and the error of ticks.
STEAL_SHARE, OTHER_CPU_SHARE = 0.02, 0.10


@attrs.frozen(kw_only=True)
class Counters:
    """Readings at one moment; only the difference of two means anything.

    :param seconds: the monotonic clock at the reading.
    :param cpus: how many CPUs the CPU seconds are summed over: those this process may use.
    :param cpu_seconds: by "total", "busy" (steal is not part of it) and "steal".
    :param swapped_pages: pages that the machine swapped in and out.
    """

    seconds: float
    cpus: int = 0
    cpu_seconds: Mapping[str, float] = attrs.field(factory=dict)
    swapped_pages: int | None = None


def disturbance(
    before: Counters, after: Counters, own_cpu_seconds: float | None
) -> dict[str, float]:
    """Return what happened beside runs between two readings, as `RunResult.disturbance`.

    "steal_share" and "other_cpu_share" of the CPUs' time lie between 0 and 1, "swapped_pages" is a
    count; a key is left out if the system does not report the figure.

    :param own_cpu_seconds: the CPU time of the runs' processes and this one in the same interval;
        None if unknown.
    """
    figures = {"swapped_pages": _rise(before.swapped_pages, after.swapped_pages)}
    total, busy, steal = (
        _rise(before.cpu_seconds.get(name), after.cpu_seconds.get(name))
        for name in ("total", "busy", "steal")
    )
    if total and after.seconds - before.seconds >= SHORTEST_SECONDS and before.cpus == after.cpus:
        if steal is not None:
            figures["steal_share"] = min(1.0, steal / total)
        if busy is not None and own_cpu_seconds is not None and math.isfinite(own_cpu_seconds):
            figures["other_cpu_share"] = min(1.0, max(0.0, busy - own_cpu_seconds) / total)
    return {name: float(figure) for name, figure in figures.items() if figure is not None}


def seen_in_words(runs: Sequence[RunResult]) -> str | None:
    """Return one line on what else used the machine; None if it was little.

    `beside the runs: steal of up to 12% of CPU time, other processes on up to 40% of the CPUs`
    """
    worst = {
        name: max((run.disturbance.get(name, 0.0) for run in runs), default=0.0)
        for name in ("steal_share", "other_cpu_share")
    }
    texts = []
    if worst["steal_share"] > STEAL_SHARE:
        texts.append(f"steal of up to {worst['steal_share']:.0%} of CPU time")
    if worst["other_cpu_share"] > OTHER_CPU_SHARE:
        texts.append(f"other processes on up to {worst['other_cpu_share']:.0%} of the CPUs")
    return f"beside the runs: {', '.join(texts)}" if texts else None


def _rise(before: float | None, after: float | None) -> float | None:
    """Return the rise of a counter, None if it fell: the process was moved, or a CPU removed."""
    if before is None or after is None or after < before:
        return None
    return after - before
