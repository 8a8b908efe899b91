"""A reading of the machine's counters: CPU time and swapping. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


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
