"""A reading of the machine's counters: CPU time, pressure, throttling, swapping. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Counters:
    """Readings at one moment; only the difference of two means anything.

    :param seconds: the monotonic clock at the reading.
    :param cpus: how many CPUs the CPU seconds are summed over: those this process may use.
    :param cpu_seconds: by "total", "busy" (steal is not part of it) and "steal".
    :param stall_seconds: pressure-stall totals of the machine, such as "memory full".
    :param own_stall_seconds: the same of this process' own control group.
    :param throttled_seconds: how long the quota of a control group held its CPUs back, all of
        them added up.
    :param thermal_throttles: how often a core or a package was slowed because it was hot.
    :param swapped_pages: pages that the machine swapped in and out.
    """

    seconds: float
    cpus: int = 0
    cpu_seconds: Mapping[str, float] = attrs.field(factory=dict)
    stall_seconds: Mapping[str, float] = attrs.field(factory=dict)
    own_stall_seconds: Mapping[str, float] = attrs.field(factory=dict)
    throttled_seconds: float | None = None
    thermal_throttles: int | None = None
    swapped_pages: int | None = None
