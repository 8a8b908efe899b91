"""Measure how fast this machine multiplies matrices and reads memory, and keep the best figures.

The peaks bound what a step can gain, so that too high a peak is harmless and too low a one is
wrong: of several measurements, also of earlier processes on this machine, the highest counts.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.diagnosis.matmul_peak import MatmulPeak
from tfopt_core.errors import InputError
from tfopt_core.files import write_text
from tfopt_core.hooks import Machine
from tfopt_core.hooks.helpers import user_cache_folder

# Seconds of measuring for each type, and for the memory.
SECONDS = 0.2
# Read in one go; larger than most caches, and a cache only makes the figure higher.
MEMORY_BYTES = 256 * 2**20
RUNS = 4
# No machine reaches it: a file with more is damaged, or was not written by tfopt.
MOST_A_SECOND = 1e18

# What this process has measured, by machine.
_measured: dict[str, MachinePeaks] = {}


@attrs.frozen(kw_only=True)
class MachinePeaks:
    """The highest rates that this machine was seen to reach.

    :param operations: floating-point operations a second of a matrix product, by dtype.
    :param bytes: bytes a second between memory and processor; None where it was not measured.
    """

    operations: Mapping[str, float] = attrs.field(factory=dict)
    bytes: float | None = None

    def highest(self, other: MachinePeaks) -> MachinePeaks:
        """Return the higher of each figure."""
        dtypes = (*self.operations, *other.operations)
        return MachinePeaks(
            operations={
                dtype: max(self.operations.get(dtype, 0.0), other.operations.get(dtype, 0.0))
                for dtype in dict.fromkeys(dtypes)
            },
            bytes=max((one for one in (self.bytes, other.bytes) if one is not None), default=None),
        )


def machine_peaks(
    machine: Machine,
    dtypes: Sequence[str],
    *,
    seen: Mapping[str, float] | None = None,
    memory: bool = True,
    sync: Callable[[], None] | None = None,
    file: Path | None = None,
) -> MachinePeaks:
    """Return the peaks of this machine. Each is measured once in a process, in under 2 s in all.

    :param dtypes: the types whose matrix products are asked for.
    :param seen: operations a second that were measured already; these are not measured again.
    :param memory: whether to measure the memory.
    :param sync: waits for the device, None on a CPU.
    :param file: where the highest figures of each machine are kept, by default in the user's cache.
    """
    key = _key(machine)
    file = peaks_file() if file is None else file
    peaks = _measured.get(key, MachinePeaks()).highest(MachinePeaks(operations=dict(seen or {})))
    missing = [dtype for dtype in dtypes if dtype not in peaks.operations]
    measured = {dtype: _products_a_second(dtype, sync) for dtype in missing}
    bandwidth = _bytes_a_second(sync) if memory and peaks.bytes is None else peaks.bytes
    peaks = peaks.highest(MachinePeaks(operations=measured, bytes=bandwidth))
    _measured[key] = peaks
    stored = _stored(file)
    peaks = peaks.highest(stored.get(key, MachinePeaks()))
    with contextlib.suppress(
        OSError, InputError
    ):  # a folder that cannot be written: measured next time again
        if peaks != stored.get(key):
            _store(file, {**stored, key: peaks})
    return peaks


def peaks_file() -> Path:
    """Return the file of the user's cache that keeps the peaks of each machine."""
    return user_cache_folder(os.environ) / "peaks.json"


def _key(machine: Machine) -> str:
    gpus = [gpu.name for gpu in machine.gpus]
    return "; ".join([
        machine.cpu_model, f"{machine.cpu_count} CPUs", *gpus, f"TensorFlow {version('tensorflow')}"
    ])  # fmt: skip


def _products_a_second(dtype: str, sync: Callable[[], None] | None) -> float:
    peak = MatmulPeak(dtype, sync=sync)
    peak.warm()
    return peak.run(SECONDS)


def _bytes_a_second(sync: Callable[[], None] | None) -> float:
    """Return the highest rate of reading, and of reading and writing, a large array."""
    import tensorflow as tf

    values = tf.ones((MEMORY_BYTES // 4,), tf.float32)
    # a write into new memory reads it first, on a processor with a cache: three transfers
    ways: tuple[tuple[int, Callable[[], Any]], ...] = (
        (1, lambda: tf.reduce_max(values)),
        (3, lambda: tf.multiply(values, 2.0)),
    )
    return max(_rate(transfers, way, sync) for transfers, way in ways for _ in range(RUNS))


def _rate(transfers: int, way: Callable[[], Any], sync: Callable[[], None] | None) -> float:
    begin = perf_counter_ns()
    way()
    if sync is not None:
        sync()
    return transfers * MEMORY_BYTES * 1e9 / (perf_counter_ns() - begin)


def _stored(file: Path) -> dict[str, MachinePeaks]:
    """Return the peaks in the file by machine; none where it is not there or not ours."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return {
            str(key): MachinePeaks(
                operations={
                    str(dtype): _rate_of(rate) for dtype, rate in one["operations"].items()
                },
                bytes=None if one["bytes"] is None else _rate_of(one["bytes"]),
            )
            for key, one in data.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _rate_of(value: Any) -> float:
    """Return a rate that was kept.

    :raises ValueError, TypeError: if it is none: nan would be passed on to every bound.
    """
    rate = float(value)
    if not 0 < rate < MOST_A_SECOND:
        raise ValueError(f"{rate} is no rate")
    return rate


def _store(file: Path, peaks: Mapping[str, MachinePeaks]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {key: attrs.asdict(one) for key, one in peaks.items()}
    write_text(file, json.dumps(data, indent=1) + "\n", replace=True)
