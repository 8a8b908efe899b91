"""Check that the machine is idle before the first run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfopt_core.records.counters import Counters
from tfopt_core.statistics.disturbance import OTHER_CPU_SHARE, causes, disturbance
from tfopt_core.workers.telemetry import read_counters

IDLE_SECONDS = 0.3
# How many processes are named at most; each uses this share of one CPU or more.
NAMED_PROCESSES = 3
NAMED_SHARE = 0.05


def watch_idle(seconds: float = IDLE_SECONDS, root: Path = Path("/")) -> tuple[str, ...]:
    """Watch the machine while nothing of ours runs. Return the warning to show, if there is one.

    Takes `seconds`, and as long again on a busy machine, to name the busiest processes.
    """
    before = read_counters(root)
    time.sleep(seconds)
    after = read_counters(root)
    if not busy_causes(before, after):
        return ()
    return busy_causes(before, after, busiest_processes(seconds))


def busy_causes(
    before: Counters, after: Counters, processes: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the warning at the start, from two readings between which nothing of ours ran.

    :param processes: the names of the busiest processes, if known.
    :returns: one line, or nothing if the machine is idle.
    """
    figures = disturbance(before, after, 0.0)
    others = figures.pop("other_cpu_share", 0.0)
    reasons, closing = list(causes(figures)), ""
    if others > OTHER_CPU_SHARE:
        named = f" ({', '.join(processes)})" if processes else ""
        reasons.insert(0, f"other processes{named} use {others:.0%} of {after.cpus} CPUs")
        closing = ", close what else runs"
    if not reasons:
        return ()
    return (f"the machine is busy: {', '.join(reasons)}; figures will be noisy{closing}",)


def busiest_processes(
    seconds: float,
    read: Callable[[], Mapping[tuple[int, str], float]] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> tuple[str, ...]:
    """Return the names of the processes that use the CPUs most while we sleep, at most three.

    :param read: returns the CPU seconds of each process, by number and name.
    """
    read = read or cpu_seconds_of_others
    earlier = read()
    sleep(seconds)
    used = {key: s - earlier[key] for key, s in read().items() if key in earlier}
    busiest = sorted(used, key=lambda key: used[key], reverse=True)[:NAMED_PROCESSES]
    return tuple(name for pid, name in busiest if used[pid, name] >= NAMED_SHARE * seconds)


def cpu_seconds_of_others() -> dict[tuple[int, str], float]:
    """Return the CPU seconds of all other processes, by number and name.

    Never by command line, which may hold secrets.
    """
    import psutil

    used = {}
    for process in psutil.process_iter(["pid", "name", "cpu_times"]):
        pid, name, times = (process.info[key] for key in ("pid", "name", "cpu_times"))
        # other users' processes may not tell their times
        if times is not None and pid != os.getpid():
            used[pid, name or "?"] = times.user + times.system
    return used
