"""The events of a profiler's trace: how long each operation took, and who took a step's time."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

# How TensorFlow names the event of an operation: `model/dense/MatMul:MatMul`.
_OPERATION = re.compile(r"([^:]+):([A-Z_][A-Za-z0-9_]*)")
# What wraps the name of every operation that a function calls.
_CALLS = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")
# What XLA on a CPU calls running a program and waiting for it; its operations have no events.
_XLA = frozenset({"BlockUntilReady", "CpuExecutable::ExecuteAsyncOnStream"})
XLA_PROGRAM = ("(a program compiled by XLA)", "XLA")
# Operations whose event holds that of others, or the wait for a batch.
_AROUND = frozenset({
    "Case", "If", "IteratorGetNext", "IteratorGetNextAsOptional", "PartitionedCall",
    "StatefulPartitionedCall", "StatelessIf", "StatelessWhile", "While",
})  # fmt: skip
_WAIT = re.compile(r"IteratorGetNext\w*Op::DoCompute")
_INPUT_THREADS = "tf_data"
_COPY = re.compile(r"memcpy", re.IGNORECASE)
# Of the lines of a GPU these hold what it ran; others repeat them by step, module or name.
_GPU_LINE = "Stream"


@attrs.frozen
class Event:
    """What one thread, or one stream of a GPU, did from `start` to `end`, in seconds."""

    line: str
    name: str
    start: float
    end: float


@attrs.frozen
class Trace:
    """The events of the host's threads and of the devices' streams."""

    host: tuple[Event, ...]
    devices: tuple[Event, ...] = ()


@attrs.frozen(kw_only=True)
class OperationTime:
    """The seconds of all calls of one operation, whichever thread made them.

    `kind` is TensorFlow's name of the operation; `part` is "input", "step" or "copy".
    """

    name: str
    kind: str
    part: str
    seconds: float


@attrs.frozen(kw_only=True)
class Shares:
    """Whose time it was, in seconds that add up to `total`.

    A moment counts as the device's if an operation was computed, else as memory's if data were
    copied to or from a device, else as the input's if the step waited for a batch, else as the
    host's: Python, Keras, and starting operations.
    """

    device: float
    memory: float
    input: float
    host: float

    @property
    def total(self) -> float:
        """All seconds that were traced."""
        return self.device + self.memory + self.input + self.host


def read_trace(path: Path) -> Trace:
    """Return the trace of a file that tf.profiler wrote (`*.xplane.pb`)."""
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    space = XSpace()
    space.ParseFromString(path.read_bytes())
    host: list[Event] = []
    devices: list[Event] = []
    for plane in space.planes:
        if plane.name.startswith("/device:"):
            devices += (event for event in _events(plane) if event.line.startswith(_GPU_LINE))
        elif plane.name.startswith("/host:"):
            host += _events(plane)
    return Trace(tuple(host), tuple(devices))


def _events(plane: Any) -> Iterator[Event]:
    names = {key: value.name for key, value in plane.event_metadata.items()}
    for line in plane.lines:
        for event in line.events:
            start = line.timestamp_ns / 1e9 + event.offset_ps / 1e12
            end = start + event.duration_ps / 1e12
            yield Event(line.name, names[event.metadata_id], start, end)


def operation_times(trace: Trace) -> list[OperationTime]:
    """Return the operations, the longest first: the device's kernels, if there is a device, and
    what the input pipeline computes."""
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    for event, seconds in _own_seconds(_computing(trace)):
        found[_operation(event)] += seconds
    times = [
        OperationTime(name=name, kind=kind, part=part, seconds=seconds)
        for (name, kind, part), seconds in found.items()
    ]
    return sorted(times, key=lambda time: (-time.seconds, time.name))


def shares(trace: Trace) -> Shares:
    """Return whose the time of the trace was, from its first event to its last."""
    everything = [e for e in (*trace.host, *trace.devices) if e.end > e.start]
    if not everything:
        return Shares(device=0.0, memory=0.0, input=0.0, host=0.0)
    steps = [event for event in _computing(trace) if _operation(event)[2] != "input"]
    busy = [event for event in steps if _operation(event)[2] == "step"]
    waits = [event for event in trace.host if _WAIT.fullmatch(event.name)]
    device = _covered(busy)
    copied = _covered(steps)
    waited = _covered([*steps, *waits])
    total = max(e.end for e in everything) - min(e.start for e in everything)
    return Shares(device=device, memory=copied - device, input=waited - copied, host=total - waited)


def _computing(trace: Trace) -> list[Event]:
    """Return the events of operations; of the step's those of the devices, if there are any."""
    host = [event for event in trace.host if _is_operation(event)]
    if trace.devices:
        host = [event for event in host if event.line.startswith(_INPUT_THREADS)]
    return [*host, *trace.devices]


def _is_operation(event: Event) -> bool:
    if event.name in _XLA:
        return True
    match = _OPERATION.fullmatch(event.name)
    return match is not None and match[2] not in _AROUND


def _operation(event: Event) -> tuple[str, str, str]:
    """Return the name, kind and part of an operation's event."""
    match = _OPERATION.fullmatch(event.name)
    name, kind = (event.name, "kernel") if match is None else (match[1], match[2])
    if event.name in _XLA:
        name, kind = XLA_PROGRAM
    if event.line.startswith(_INPUT_THREADS):
        part = "input"
    elif event.line.startswith(_GPU_LINE) and _COPY.search(name):
        part = "copy"
    else:
        part = "step"
    return _CALLS.sub("", name), kind, part


def _own_seconds(events: Iterable[Event]) -> Iterator[tuple[Event, float]]:
    """Yield each event with its seconds less those of the events within it on the same line."""
    lines: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        lines[event.line].append(event)
    for line in lines.values():
        found: list[list[Any]] = []
        around: list[list[Any]] = []
        for event in sorted(line, key=lambda e: (e.start, -e.end)):
            while around and around[-1][0].end <= event.start:
                around.pop()
            if around:
                around[-1][1] -= event.end - event.start
            around.append([event, event.end - event.start])
            found.append(around[-1])
        yield from ((event, max(0.0, seconds)) for event, seconds in found)


def _covered(events: Iterable[Event]) -> float:
    """Return the seconds in which at least one of the events went on."""
    seconds, until = 0.0, float("-inf")
    for event in sorted(events, key=lambda e: e.start):
        seconds += max(0.0, event.end - max(event.start, until))
        until = max(until, event.end)
    return seconds
