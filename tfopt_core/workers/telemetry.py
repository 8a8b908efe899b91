"""Read the counters of the machine and of this process; one that is missing is left out."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from pathlib import Path

from tfopt_core.hooks.machine import process_cpus
from tfopt_core.statistics.disturbance import Counters

# A counter of the kernel has at most 20 digits; longer numbers are ignored.
MAXIMUM_DIGITS = 20


def read_counters(root: Path = Path("/")) -> Counters:
    """Read all counters that this system has; takes about a millisecond and never raises.

    :param root: where `proc` and `sys` lie.
    """
    # what happens on the other CPUs of a large machine is no disturbance here
    ticks = parse_cpu_ticks(_text(root / "proc/stat"), process_cpus())
    tick = 1 / os.sysconf("SC_CLK_TCK")
    return Counters(
        seconds=time.monotonic(),
        cpus=ticks.pop("cpus", 0),
        cpu_seconds={name: count * tick for name, count in ticks.items()},
        swapped_pages=parse_swapped_pages(_text(root / "proc/vmstat")),
    )


# Parsing


def parse_cpu_ticks(text: str, cpus: frozenset[int] | None) -> dict[str, int]:
    """Return ticks of /proc/stat: "total", "busy", "steal"; and "cpus", the number summed up.

    :param cpus: the CPUs to sum over, None for all of them.
    :returns: nothing if the text lists none of them.
    """
    by_cpu = {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        number = _integer(name.removeprefix("cpu")) if name.startswith("cpu") else None
        ticks = [_integer(field) for field in fields[:8]]
        if number is not None and len(ticks) == 8 and None not in ticks:
            by_cpu[number] = [tick or 0 for tick in ticks]
    # some containers list their own CPUs only, numbered from zero
    chosen = cpus if cpus and cpus <= by_cpu.keys() else by_cpu.keys()
    if not chosen:
        return {}
    # guest time, which follows, is part of user time already
    user, nice, system, idle, waiting, hard, soft, steal = (
        sum(by_cpu[number][field] for number in chosen) for field in range(8)
    )
    busy = user + nice + system + hard + soft
    total = busy + idle + waiting + steal
    return {"total": total, "busy": busy, "steal": steal, "cpus": len(chosen)}


def parse_swapped_pages(text: str) -> int | None:
    """Return the pages swapped in and out, from /proc/vmstat."""
    figures = _table(text)
    known = [figures[name] for name in ("pswpin", "pswpout") if name in figures]
    return sum(known) if known else None


def parse_oom_kills(text: str) -> int | None:
    """Processes killed for want of memory, of a control group's memory.events or oom_control."""
    return _table(text).get("oom_kill")


def own_groups(text: str, mount: Path, controller: str = "cpu") -> tuple[Path, ...]:
    """Return the folders of this process' control groups, each with its ancestors, innermost first.

    :param text: of /proc/self/cgroup: lines of hierarchy number, controllers and path.
    :param controller: which hierarchy counts in version 1.
    """
    groups: dict[Path, None] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part]
        if ".." in parts or "\0" in path or not (controllers == "" or controller in controllers):
            continue  # outside of this container, or another controller
        base = mount / controller if controllers else mount
        for depth in range(len(parts), -1, -1):
            groups[base.joinpath(*parts[:depth])] = None
    # a container's own group is often mounted at the top, whatever the path says
    return tuple(groups) or (mount, mount / controller)


# Reading


def oom_kills(root: Path = Path("/")) -> int:
    """Return how many processes of our control group the kernel killed for want of memory so far.

    0 where nothing counts them.

    :param root: where `proc` and `sys` lie.
    """
    groups = own_groups(_text(root / "proc/self/cgroup"), root / "sys/fs/cgroup", "memory")
    counts = (
        parse_oom_kills(_text(group / file))
        for group in groups
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
    table = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        number = _integer(value.strip())
        if number is not None:
            table[name] = number
    return table


def _integer(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) <= MAXIMUM_DIGITS:
        return int(text)
    return None


def peak_rss_bytes() -> int:
    """Return the largest resident memory of this process so far, from the operating system."""
    # ru_maxrss of a started process begins with that of its parent; VmHWM is this program's own
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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
