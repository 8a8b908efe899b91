"""Compute the least time of a step on this machine, from its work and the machine's peaks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfopt_core.diagnosis.machine_peaks import MachinePeaks, machine_peaks
from tfopt_core.hooks import ComputeFloor, Machine
from tfopt_core.records.diagnosis import Roofline, Round
from tfopt_core.training.build import Built
from tfopt_core.training.graphs.least_work import least_state_bytes, least_work
from tfopt_core.training.graphs.operations import StepGraph
from tfopt_core.training.timing.devices import device_sync

# Caches that cannot be read: larger than those of any processor or GPU today.
UNKNOWN_CACHE_BYTES = 2 * 2**30


def roofline_of(
    built: Built, graph: StepGraph | None, why_no_graph: str, rounds: Sequence[Round]
) -> Roofline:
    """Return the least seconds of a step of this training, or why they are not known.

    :param graph: the traced step, None for the reason in `why_no_graph`.
    :param rounds: whose peaks were measured beside the loops.
    """
    machine, policy = built.run.machine, built.precision.policy
    why_not = why_no_graph if graph is None else ""
    if built.run.replicas > 1:
        why_not = "there are several replicas"
    why_not = why_not or why_no_peak(machine, threads_within_operations(), os.environ)
    if why_not or graph is None:
        return Roofline(why_not=why_not)
    work = least_work(graph.graph, fast_convolutions=bool(machine.gpus))
    cache_bytes = last_cache_bytes(machine)
    state_bytes = least_state_bytes(built.model)
    seen = {
        dtype: max(one.peaks[dtype] for one in rounds if dtype in one.peaks)
        for dtype in rounds[-1].peaks
    }
    peaks = machine_peaks(
        machine, tuple(seen), seen=seen, memory=state_bytes > cache_bytes,
        sync=device_sync(machine),
    )  # fmt: skip
    return roofline(work.operations, state_bytes, policy, peaks, cache_bytes, work.uncounted)


def roofline(
    operations: float,
    state_bytes: float,
    policy: str,
    peaks: MachinePeaks,
    cache_bytes: int,
    uncounted: tuple[str, ...] = (),
) -> Roofline:
    """Return the least seconds of a step.

    :param operations: the least operations of its matrix products and convolutions.
    :param state_bytes: what each step must read and write, as far as the cache does not hold it.
    :param policy: the dtype policy of the model.
    :param cache_bytes: the size of the last-level cache.
    """
    fastest = max(peaks.operations, key=lambda dtype: peaks.operations[dtype])
    # a layer may be kept in float32 under another policy
    own = ("float32", policy.removeprefix("mixed_"))
    same = max(peaks.operations.get(dtype, 0.0) for dtype in own)
    moved = 2 * max(0.0, state_bytes - cache_bytes)
    moving = moved / peaks.bytes if peaks.bytes else 0.0
    return Roofline(
        operations=operations,
        bytes=moved,
        fastest=fastest,
        peaks=dict(peaks.operations),
        bytes_a_second=peaks.bytes,
        # variables may be kept in a smaller type where rounding is allowed
        floor=ComputeFloor(
            same_precision=max(operations / same if same else 0.0, moving),
            any_precision=operations / peaks.operations[fastest],
        ),
        uncounted=uncounted,
    )


def why_no_peak(machine: Machine, threads: int, environment: Mapping[str, str]) -> str:
    """Return why this process cannot measure the machine's peak, "" if it can.

    :param threads: of TensorFlow within an operation, 0 for as many as there are CPUs.
    """
    if not machine.gpus and 0 < threads < machine.cpu_count:
        return f"TensorFlow is limited to {threads} of {machine.cpu_count} threads"
    if not machine.gpus and environment.get("TF_ENABLE_ONEDNN_OPTS") in ("0", "false", "False"):
        return "oneDNN is turned off"
    return ""


def last_cache_bytes(machine: Machine, folder: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the bytes of all caches from level 2 on; a large number where they are not known."""
    if machine.gpus:
        return UNKNOWN_CACHE_BYTES
    sizes: dict[str, int] = {}
    try:
        for index in folder.glob("cpu[0-9]*/cache/index*"):
            level = int((index / "level").read_text())
            if level >= 2:
                shared = f"{level} {(index / 'shared_cpu_list').read_text()}"
                sizes[shared] = int((index / "size").read_text().strip().removesuffix("K")) * 1024
    except (OSError, ValueError):
        return UNKNOWN_CACHE_BYTES
    return sum(sizes.values()) or UNKNOWN_CACHE_BYTES


def threads_within_operations() -> int:
    """Return how many threads TensorFlow uses within an operation, 0 for as many as CPUs."""
    import tensorflow as tf

    threads = int(tf.config.threading.get_intra_op_parallelism_threads())
    return threads or int(os.environ.get("TF_NUM_INTRAOP_THREADS", "0") or 0)
