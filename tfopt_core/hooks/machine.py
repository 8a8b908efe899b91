"""Read what this machine has, without TensorFlow."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

# Native bfloat16 arithmetic, as /proc/cpuinfo names it on x86-64 and arm64.
BFLOAT16_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@attrs.frozen
class Gpu:
    """One GPU: its name, CUDA compute capability (major, minor) and memory in bytes.

    `free_bytes` is what was free of the memory when it was read, before tfopt started a process.
    Values that the driver does not report are (0, 0) and 0.
    """

    name: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    free_bytes: int = 0


@attrs.frozen(kw_only=True)
class Machine:
    """The machine as this process may use it.

    `cpu_count` is the number of CPUs that affinity and cgroup quota allow (at least 1),
    `cpu_count_total` that of the machine; `memory_bytes` is the smaller of the physical memory and
    the cgroup's limit.
    """

    system: str
    cpu_model: str
    cpu_count: int
    cpu_count_total: int
    cpu_flags: frozenset[str] = frozenset()
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()

    @property
    def has_bfloat16_cpu(self) -> bool:
        """Whether the CPU multiplies bfloat16 natively."""
        return bool(self.cpu_flags & BFLOAT16_CPU_FLAGS)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the store and `--json`, with vector extensions as `cpu_flags`."""
        data = attrs.asdict(self)
        data["cpu_flags"] = sorted(
            flag for flag in self.cpu_flags if flag.startswith(("avx", "amx", "bf16", "sve"))
        )
        data["gpus"] = [attrs.asdict(gpu) for gpu in self.gpus]
        return data


def machine_in_words(machine: Mapping[str, Any]) -> str:
    """Return a stored machine as `Xeon Platinum 8481C, 2 CPUs, 8 GiB, no GPU`."""
    model = str(machine.get("cpu_model") or "unknown CPU")
    parts = [" ".join(model.replace("(R)", "").replace("(TM)", "").split())]
    if cpus := machine.get("cpu_count"):
        parts.append(f"{cpus:,} CPU" if cpus == 1 else f"{cpus:,} CPUs")
    if memory := machine.get("memory_bytes"):
        parts.append(f"{memory / 2**30:.0f} GiB")
    gpus = Counter(
        str(gpu.get("name", "GPU")) if isinstance(gpu, Mapping) else str(gpu)
        for gpu in machine.get("gpus") or ()
    )
    parts += [name if n == 1 else f"{n} x {name}" for name, n in gpus.items()] or ["no GPU"]
    return ", ".join(parts)


def read_machine() -> Machine:
    """Return the machine of this process. Takes a few milliseconds, more with GPUs."""
    model, flags = _cpu()
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        cpu_model=model,
        cpu_count=usable_cpus(),
        cpu_count_total=os.cpu_count() or 1,
        cpu_flags=flags,
        memory_bytes=usable_memory_bytes(),
        # of NVIDIA; it comes with the driver, and with that of Windows in its subsystem for Linux
        gpus=parse_gpus(ask_driver("gpu", "name", "compute_cap", "memory.total", "memory.free")),
    )


def _cpu() -> tuple[str, frozenset[str]]:
    model, flags = platform.processor() or platform.machine(), frozenset[str]()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return model, flags
    for line in text.splitlines():
        key, _, value = line.partition(":")
        match key.strip():
            case "model name":
                model = value.strip()
            case "flags" | "Features" if not flags:
                flags = frozenset(value.split())
    return model, flags


def process_cpus() -> frozenset[int]:
    """Return the numbers of the CPUs that this process may run on, without quotas.

    TensorFlow starts as many threads by itself.
    """
    return frozenset(os.sched_getaffinity(0))


def usable_cpus(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of CPUs that affinity and the cgroup's quota allow."""
    affinity = len(process_cpus())
    quota = _text(cgroup / "cpu.max")
    if quota and not quota.startswith("max"):
        allowed, period = quota.split()
        return max(1, min(affinity, round(int(allowed) / int(period))))
    return max(1, affinity)


def usable_memory_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the smaller of the physical memory and the cgroup's limit, in bytes."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = _text(cgroup / name)
        if limit and limit.isdigit():
            return min(physical, int(limit))
    return physical


def used_memory_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory used within the cgroup in bytes, 0 if there is no cgroup.

    The inactive part of the page cache is left out: the kernel gives it up when memory is asked for
    (what Kubernetes calls the working set).
    """
    for usage, stat, cached in (
        ("memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        used = _text(cgroup / usage)
        if used and used.isdigit():
            lines = (_text(cgroup / stat) or "").splitlines()
            return int(used) - sum(
                int(line.split()[1]) for line in lines if line.split()[0] == cached
            )
    return 0


def available_memory_bytes() -> int:
    """Return the memory that is free now, within the limit of the cgroup."""
    import psutil

    left = usable_memory_bytes() - used_memory_bytes()
    return max(0, min(int(psutil.virtual_memory().available), left))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def ask_driver(subject: str, *columns: str) -> str:
    """Return what `nvidia-smi` lists of its GPUs ("gpu") or of the processes on them
    ("compute-apps"), as CSV; "" where it cannot be asked."""
    query = f"--query-{subject}={','.join(columns)}"
    try:
        answer = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout


def parse_gpus(listing: str) -> tuple[Gpu, ...]:
    """Return the GPUs in the CSV of `nvidia-smi`: name, compute capability, all memory in MiB and
    what is free of it."""
    gpus = []
    for line in listing.splitlines():
        name, capability, *mebibytes = (part.strip() for part in line.rsplit(",", 3))
        # a value that the driver does not report is "[N/A]"
        major, _, minor = capability.partition(".")
        known = major.isdigit() and minor.isdigit()
        memory = (int(size) * 2**20 if size.isdigit() else 0 for size in mebibytes)
        gpus.append(Gpu(name, (int(major), int(minor)) if known else (0, 0), *memory))
    return tuple(gpus)
