"""Read the counters of the machine and of this process, and say what else used the machine.

What else runs hits all sides of a round alike where they take turns, and widens the interval where
they do not; no run is repeated for it.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfopt_core.hooks.machine import process_cpus
from tfopt_core.statistics.runs import RunResult

# The CPUs' ticks are 10 ms: a shorter interval cannot tell shares of a few percent.
SHORTEST_SECONDS = 0.2
# Smaller shares are not worth a line: those of other processes come from our own processes' ends,
# kernel threads and the error of ticks.
STEAL_SHARE, OTHER_CPU_SHARE = 0.02, 0.10


def read_counters(vmstat: Path = Path("/proc/vmstat")) -> dict[str, float]:
    """Return readings of this moment, of which only the difference of two means anything.

    "seconds" is the monotonic clock. "total", "busy" (steal is not part of it) and "steal" are
    seconds of the "cpus" that this process may use, "swapped_pages" those swapped in and out; what
    the system does not report is left out.
    """
    import psutil

    counters: dict[str, float] = {"seconds": time.monotonic()}
    with contextlib.suppress(OSError, ValueError, IndexError):
        times = psutil.cpu_times(percpu=True)
        # what happens on the other CPUs of a large machine is no disturbance here; some containers
        # list their own CPUs only, numbered from zero
        ours = process_cpus()
        chosen = [each for number, each in enumerate(times) if number in ours]
        chosen = chosen if len(chosen) == len(ours) else times
        # guest time is part of user time already
        names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
        sums = {
            name: sum(getattr(each, name) for each in chosen)
            for name in names
            if hasattr(chosen[0], name)
        }
        counters["cpus"], counters["total"] = len(chosen), sum(sums.values())
        waiting = sum(sums.get(name, 0.0) for name in ("idle", "iowait", "steal"))
        counters["busy"] = counters["total"] - waiting
        if "steal" in sums:
            counters["steal"] = sums["steal"]
    pages = _table(_text(vmstat))
    if "pswpin" in pages:
        counters["swapped_pages"] = pages["pswpin"] + pages.get("pswpout", 0)
    return counters


def disturbance(
    before: Mapping[str, float], after: Mapping[str, float], own_cpu_seconds: float | None
) -> dict[str, float]:
    """Return what happened beside runs between two readings, as `RunResult.disturbance`.

    "steal_share" and "other_cpu_share" of the CPUs' time lie between 0 and 1, "swapped_pages" is a
    count; a key is left out if the system does not report the figure.

    :param own_cpu_seconds: the CPU time of the runs' processes and this one in the same interval;
        None if unknown.
    """
    # a counter falls where the process was moved, or a CPU removed
    rise = {name: after[name] - old for name, old in before.items() if after.get(name, -1.0) >= old}
    figures = {name: rise[name] for name in ("swapped_pages",) if name in rise}
    total = rise.get("total")
    if total and rise["seconds"] >= SHORTEST_SECONDS and before["cpus"] == after["cpus"]:
        if "steal" in rise:
            figures["steal_share"] = min(1.0, rise["steal"] / total)
        if "busy" in rise and own_cpu_seconds is not None:
            figures["other_cpu_share"] = min(1.0, max(0.0, rise["busy"] - own_cpu_seconds) / total)
    return figures


def seen_in_words(runs: Sequence[RunResult]) -> str | None:
    """Return one line on what else used the machine; None if it was little.

    `beside the runs: steal of up to 12% of CPU time, other processes on up to 40% of the CPUs`
    """
    steal, others = (
        max((run.disturbance.get(name, 0.0) for run in runs), default=0.0)
        for name in ("steal_share", "other_cpu_share")
    )
    texts = []
    if steal > STEAL_SHARE:
        texts.append(f"steal of up to {steal:.0%} of CPU time")
    if others > OTHER_CPU_SHARE:
        texts.append(f"other processes on up to {others:.0%} of the CPUs")
    return f"beside the runs: {', '.join(texts)}" if texts else None


def memory_groups(root: Path = Path("/")) -> list[Path]:
    """Return the folders of this process' control groups that count memory, each with its
    ancestors, innermost first.

    :param root: where `proc` and `sys` lie.
    """
    mount = root / "sys/fs/cgroup"
    groups: dict[Path, None] = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part]
        if ".." in parts or "\0" in path or (controllers and "memory" not in controllers):
            continue  # outside of this container, or another controller of version 1
        for depth in range(len(parts), -1, -1):
            groups[(mount / "memory" if controllers else mount).joinpath(*parts[:depth])] = None
    # a container's own group is often mounted at the top, whatever the path says
    return list(groups) or [mount, mount / "memory"]


def oom_kills(root: Path = Path("/")) -> int:
    """Return how many processes of our control group the kernel killed for want of memory so far.

    0 where nothing counts them.

    :param root: where `proc` and `sys` lie.
    """
    counts = (
        _table(_text(group / file)).get("oom_kill")
        for group in memory_groups(root)
        for file in ("memory.events", "memory.oom_control")
    )
    # the innermost group that counts: an ancestor may hold processes that are not ours
    return next((count for count in counts if count is not None), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError):
        return ""


def _table(text: str) -> dict[str, int]:
    """Return the table of lines with a name and a whole number."""
    rows = (line.split(" ") for line in text.splitlines())
    # a counter of the kernel has at most 20 digits
    return {
        row[0]: int(row[1])
        for row in rows
        if len(row) == 2 and row[1].isdecimal() and row[1].isascii() and len(row[1]) <= 20
    }


def peak_rss_bytes() -> int:
    """Return the largest resident memory of this process so far, from the operating system."""
    # ru_maxrss of a started process begins with that of its parent; VmHWM is this program's own
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # in some sandboxes


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and those it waited for, user and system time."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_device_bytes() -> int | None:
    """Return the largest memory taken on the GPUs together, None without one."""
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        return None
    return sum(int(tf.config.experimental.get_memory_info(gpu.name)["peak"]) for gpu in gpus)
