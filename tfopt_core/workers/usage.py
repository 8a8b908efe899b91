"""The memory and CPU time that this process has used so far."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path


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
