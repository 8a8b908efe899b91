"""Compute the disturbances of a run from two readings of the machine's counters.

A run may be repeated without bias only for a cause from outside: CPU time that others took. Memory,
heat and a quota may be the run's own doing (docs/guide/measuring.md, "Is the machine disturbed?"):
they are named, and block a claim if they hit one side alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tfopt_core.records.counters import Counters
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import FULL
from tfopt_core.records.verdict import Verdict
from tfopt_core.statistics.judgement import INDIFFERENCE
from tfopt_core.statistics.pairs import Pair

# The CPUs' ticks are 10 ms: a shorter interval cannot tell shares of a few percent.
SHORTEST_SECONDS = 0.2

# The limits above which a run counts as disturbed.

# Stolen time slows a run by the same share; 2% is the band of indifference.
STEAL_SHARE = 0.02
# Smaller shares come from our own processes' ends, kernel threads and the error of ticks; with a
# larger one the run shares caches, memory and the turbo clock with another program.
OTHER_CPU_SHARE = 0.10
# A quota stops the threads in bursts of up to 0.1 s, which hit single steps.
THROTTLED_SHARE = 0.01
# While all tasks wait for memory nothing is computed: half of the band of indifference.
MEMORY_STALL_SHARE = 0.01
# One event slows a core for up to a second.
THERMAL_THROTTLES = 0
# 1 MiB: some 25 ms on an SSD, half a percent of 5 s. The counter is that of the whole machine, and
# some pages of processes that sleep are always moved.
SWAPPED_PAGES = 256
# Causes from outside, which no run brings about itself.
FOREIGN = (("steal_share", STEAL_SHARE), ("other_cpu_share", OTHER_CPU_SHARE))
# Causes that may be the run's own doing: too much memory, or too much computing for the machine.
OWN = (
    ("throttled_share", THROTTLED_SHARE, "throttling by a quota"),
    ("memory_stall_share", MEMORY_STALL_SHARE, "memory pressure"),
    ("thermal_throttles", THERMAL_THROTTLES, "thermal throttling"),
    ("swapped_pages", SWAPPED_PAGES, "swapping"),
)


def disturbance(
    before: Counters, after: Counters, own_cpu_seconds: float | None
) -> dict[str, float]:
    """Return what happened beside the run between two readings, as `RunResult.disturbance`.

    Shares lie between 0 and 1, and a key is left out if the system does not report the figure:
    "steal_share" and "other_cpu_share" of the CPUs' time; "throttled_share", "cpu_pressure_share"
    (some task waited), "io_stall_share", "memory_pressure_share" (some) and "memory_stall_share"
    (all waited) of the interval; "thermal_throttles" and "swapped_pages" are counts.

    :param own_cpu_seconds: the CPU time of the run's processes and this one in the same interval;
        None if unknown.
    """
    figures: dict[str, float | None] = {
        "thermal_throttles": _rise(before.thermal_throttles, after.thermal_throttles),
        "swapped_pages": _rise(before.swapped_pages, after.swapped_pages),
    }
    seconds = after.seconds - before.seconds
    if seconds >= SHORTEST_SECONDS:
        figures |= _cpu_shares(before, after, own_cpu_seconds)
        figures["throttled_share"] = _share(
            # the quota's counter adds up all CPUs that were held back
            _rise(before.throttled_seconds, after.throttled_seconds),
            seconds * (after.cpus or 1),
        )
        for key, name in (
            ("cpu_pressure_share", "cpu some"), ("io_stall_share", "io full"),
            ("memory_pressure_share", "memory some"), ("memory_stall_share", "memory full"),
        ):  # fmt: skip
            figures[key] = _share(_stalled(before, after, name), seconds)
    return {name: float(figure) for name, figure in figures.items() if figure is not None}


def causes(disturbance: Mapping[str, float]) -> tuple[str, ...]:
    """Return why a run counts as disturbed, in words with figures; empty if it does not.

    Pressure on the CPUs and on the disk is recorded but never a cause: the run's own threads and
    its own reading bring it about.
    """

    def above(name: str, limit: float) -> float:
        figure = disturbance.get(name, 0.0)
        return figure if figure > limit else 0.0

    texts = []
    if share := above("steal_share", STEAL_SHARE):
        texts.append(f"steal {share:.0%} of CPU time")
    if share := above("other_cpu_share", OTHER_CPU_SHARE):
        texts.append(f"other processes took {share:.0%} of the CPUs")
    if share := above("throttled_share", THROTTLED_SHARE):
        texts.append(f"throttled {share:.0%} of the time")
    if share := above("memory_stall_share", MEMORY_STALL_SHARE):
        texts.append(f"memory pressure {share:.0%} of the time")
    if count := above("thermal_throttles", THERMAL_THROTTLES):
        texts.append(f"thermal throttling {count:,.0f} {'time' if count == 1 else 'times'}")
    if above("swapped_pages", SWAPPED_PAGES):
        texts.append("swapping")
    return tuple(texts)


def from_outside(disturbance: Mapping[str, float]) -> bool:
    """Return whether something disturbed a run that it cannot have caused itself."""
    return any(disturbance.get(name, 0.0) > limit for name, limit in FOREIGN)


def on_one_side(pairs: Sequence[Pair]) -> str | None:
    """Return which cause hit runs of one side only and may be that side's own doing.

    `swapping in 2 of 4 runs of "full" and in none of "baseline"`; None if there is none.
    """
    for name, limit, words in OWN:
        without = [p.without for p in pairs if p.without.disturbance.get(name, 0.0) > limit]
        with_ = [p.with_ for p in pairs if p.with_.disturbance.get(name, 0.0) > limit]
        if bool(without) != bool(with_):
            hit, side, other = without, pairs[0].without, pairs[0].with_
            if with_:
                hit, side, other = with_, other, side
            return (
                f'{words} in {len(hit)} of {len(pairs)} runs of "{side.variant}" and in none of '
                f'"{other.variant}"'
            )
    return None


def disturbed_in_words(runs: Sequence[RunResult]) -> str | None:
    """Return a warning about disturbed runs among those that count; None if there are none.

    `3 of 8 runs were disturbed: at worst steal 12% of CPU time, swapping`; each figure is the worst
    of these runs.
    """
    worst = _worst(runs)
    if worst is None:
        return None
    hit = [run for run in runs if run.ok and causes(run.disturbance)]
    # the stack itself may cause memory pressure and heat, such as by a cache that swaps
    only_full = len(hit) > 1 and {run.variant for run in hit} == {FULL}
    only_full = only_full and not any(from_outside(run.disturbance) for run in hit)
    own = " (only with the whole stack: it may be its own doing)" if only_full else ""
    return f"{worst[1]} runs were disturbed{own}: {worst[0]}"


def no_difference(runs: Sequence[RunResult], figures: str, of_what: str) -> tuple[Verdict, str]:
    """Return NO_DIFFERENCE with its sentence, or DISTURBED: known noise may hide a difference.

    :param runs: those that the claim rests on.
    :param figures: the speedup with its interval, in words.
    :param of_what: of what it is true, such as " to the target".
    """
    found = _worst(runs)
    if found is None:
        return Verdict.NO_DIFFERENCE, (
            f"no measurable difference{of_what} (within {INDIFFERENCE:.0%}): {figures}"
        )
    return Verdict.DISTURBED, (
        f"machine disturbed: {found[0]} in {found[1]} runs; "
        f"no difference{of_what} may be claimed: {figures}"
    )


def _worst(runs: Sequence[RunResult]) -> tuple[str, str] | None:
    """Return the causes with the worst figures, and the number of disturbed runs."""
    counted = [run for run in runs if run.ok]
    disturbed = [run.disturbance for run in counted if causes(run.disturbance)]
    if not disturbed:
        return None
    worst = {name: max(d.get(name, 0.0) for d in disturbed) for d in disturbed for name in d}
    at_worst = "at worst " if len(disturbed) > 1 else ""
    return f"{at_worst}{', '.join(causes(worst))}", f"{len(disturbed)} of {len(counted)}"


def _cpu_shares(
    before: Counters, after: Counters, own_cpu_seconds: float | None
) -> dict[str, float | None]:
    total, busy, steal = (
        _rise(before.cpu_seconds.get(name), after.cpu_seconds.get(name))
        for name in ("total", "busy", "steal")
    )
    if not total or before.cpus != after.cpus:
        return {}
    others = None
    if busy is not None and own_cpu_seconds is not None and math.isfinite(own_cpu_seconds):
        others = max(0.0, busy - own_cpu_seconds)
    return {"steal_share": _share(steal, total), "other_cpu_share": _share(others, total)}


def _stalled(before: Counters, after: Counters, name: str) -> float | None:
    """Return the larger rise of the machine's stalls and of our own control group's."""
    rises = [
        _rise(earlier.get(name), later.get(name))
        for earlier, later in (
            (before.stall_seconds, after.stall_seconds),
            (before.own_stall_seconds, after.own_stall_seconds),
        )
    ]
    return max((rise for rise in rises if rise is not None), default=None)


def _rise(before: float | None, after: float | None) -> float | None:
    """Return the rise of a counter, None if it fell: the process was moved, or a CPU removed."""
    if before is None or after is None or after < before:
        return None
    return after - before


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None else min(1.0, part / whole)
